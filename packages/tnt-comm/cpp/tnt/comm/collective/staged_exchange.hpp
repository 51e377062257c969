#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// Exchange through slots that all members can read, see exchange.hpp. If each member is to
/// get something else, a slot is cut into as many parts.
class StagedExchange : public StagedWork {
 protected:
  StagedExchange(const StagingPipeline& pipeline, const Descriptor& descriptor, SentParts parts)
      : StagedWork(pipeline), descriptor_(descriptor), parts_(parts) {
    const std::size_t num_parts =
        parts == SentParts::same ? 1 : static_cast<std::size_t>(channel().size());
    share_ = channel().slot_bytes() / num_parts / kCacheLineBytes * kCacheLineBytes;
  }

  int rank() const { return channel().rank(); }
  int size() const { return channel().size(); }
  const Descriptor& descriptor() const { return descriptor_; }
  std::size_t share() const { return share_; }
  std::uint64_t count_of(int member) const {
    return channel().descriptor_of(member, pipeline().base()).count;
  }
  void cut(std::size_t longest) {
    num_blocks = std::max<std::size_t>(1, (longest + share_ - 1) / share_);
  }
  std::byte* outgoing(int member, std::uint64_t index) const {
    return pipeline().slot_of(rank(), index) + place_of(member);
  }
  void send(int /*member*/, std::uint64_t /*index*/, std::size_t /*num_bytes*/) {}
  const std::byte* incoming(int member, std::uint64_t index) const {
    return pipeline().slot_of(member, index) + place_of(rank());
  }

 private:
  std::size_t place_of(int member) const {
    return parts_ == SentParts::same ? 0 : static_cast<std::size_t>(member) * share_;
  }

  Descriptor descriptor_;
  SentParts parts_;
  std::size_t share_;
};

/// Barrier: one block without data. It is complete when all have posted.
class StagedBarrier final : public StagedWork {
 public:
  StagedBarrier(const StagingPipeline& pipeline, const Descriptor&, const CallArrays&)
      : StagedWork(pipeline) {}
  void copy_in(std::uint64_t) override {}
  void copy_out(std::uint64_t) override {}
};

/// See make_exchange().
struct StagedWorld {
  template <typename Work>
  using Call = StagedCall<Work>;
  using Stream = StagedStream;
  using Exchange = StagedExchange;
  using Barrier = StagedBarrier;
  using Tree = StagedExchange;  // all read what the root has put into its slot
};

}  // namespace tnt::comm
