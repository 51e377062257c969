#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/collective/exchange.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

/// Exchange through slots that all members can read, see make_exchange(). If each member is to
/// get something else, a slot is cut into as many parts.
class StagedExchange : public StagedWork {
 protected:
  StagedExchange(const StagingPipeline& pipeline, const Descriptor& descriptor, SentParts parts)
      : StagedWork(pipeline), descriptor_(descriptor), parts_(parts) {
    const std::size_t num_parts =
        parts == SentParts::same ? 1 : static_cast<std::size_t>(ring().size());
    share_ = ring().slot_bytes() / num_parts / kCacheLineBytes * kCacheLineBytes;
  }

  int rank() const { return ring().rank(); }
  int size() const { return ring().size(); }
  const Descriptor& descriptor() const { return descriptor_; }
  std::size_t share() const { return share_; }
  std::uint64_t count_of(int member) const {
    return ring().descriptor_of(member, pipeline().base()).count;
  }
  void cut(std::size_t longest) {
    num_blocks = std::max<std::size_t>(1, (longest + share_ - 1) / share_);
  }
  std::byte* outgoing(int member, std::uint64_t index) const {
    return pipeline().slot_of(rank(), index) + offset_of(member);
  }
  void send(int /*member*/, std::uint64_t /*index*/, std::size_t /*num_bytes*/) {}
  const std::byte* incoming(int member, std::uint64_t index) const {
    return pipeline().slot_of(member, index) + offset_of(rank());
  }

 private:
  std::size_t offset_of(int member) const {
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

/// Collectives among ranks that can read each other's memory.
class ReadableCollectives final : public Collectives {
 public:
  /// Of the ring: a block is copied in while the one before is reduced. Longer messages take
  /// several blocks through slots of this size.
  static SlotLayout layout_with(std::size_t slot_bytes) {
    return {.slot_bytes = slot_bytes, .depth = 2};
  }

  ReadableCollectives(OperationContext context, const StreamMemory& memory) {
    SlotLayout layout = layout_with(memory.slot_bytes);
    layout.offset = memory.offset;
    const AllreduceAlgorithm requested = context.requested;
    stream_ = std::make_shared<StagedStream>(
        StagedStream{std::move(context), SlotRing(memory.segment, layout)});
    const bool may_be_one_shot =
        requested == AllreduceAlgorithm::automatic || requested == AllreduceAlgorithm::one_shot;
    if (may_be_one_shot) quick_ = std::make_unique<QuickAllreduce>(stream_);
  }

  QuickAllreduce* quick_allreduce() override { return quick_.get(); }

  Made take_over(const QuickAllreduce& quick, const void* in, void* out) override {
    auto operation = std::make_shared<StagedCall<OneShotAllreduce>>(
        stream_, quick.descriptor(), CallArrays{.in = in, .out = out});
    operation->take_over(quick.descriptor());
    return operation;
  }

  Made make(const Descriptor& descriptor, CallArrays arrays) override {
    if (descriptor.kind != CollectiveKind::allreduce) {
      return make_exchange<StagedWorld>(stream_, descriptor, std::move(arrays));
    }
    const AllreduceCase wanted{.num_bytes = descriptor.num_bytes(),
                               .dtype = descriptor.dtype,
                               .topology = Topology::readable,
                               .num_members = stream_->ring.size()};
    const OperationContext& context = stream_->context;
    if (choose_allreduce(wanted, context.requested, *context.abort_state) ==
        AllreduceAlgorithm::one_shot) {
      return std::make_shared<StagedCall<OneShotAllreduce>>(stream_, descriptor, arrays);
    }
    return std::make_shared<StagedCall<TwoShotAllreduce>>(stream_, descriptor, arrays);
  }

 private:
  std::shared_ptr<StagedStream> stream_;
  std::unique_ptr<QuickAllreduce> quick_;
};

}  // namespace tnt::comm
