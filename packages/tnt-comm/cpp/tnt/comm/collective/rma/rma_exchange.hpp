#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// What `member` does to send something to everybody; `share` bytes have room for each. What
/// comes from member k lands at share * k of the landing area; what goes to it lies at share * k in
/// the work area, or where that begins if all get the same. One round, n-1 messages, whose lengths
/// are to be filled in: message d goes to the rank d + 1 further on.
Schedule exchange_schedule(int member, int size, std::size_t share, SentParts parts,
                           const Areas& areas);

/// What `member` of `size` does to take one block of `num_bytes` from the root
/// to everybody, along a binomial tree: once the root has sent the block to the
/// rank half the group away there are two who have it, then four. Blocks go
/// straight into the work areas, from which they are sent on, and follow each other
/// down the tree, so that a long array takes little more time than its way to the root's children.
///
/// A rank answers its parent as soon as it has a block. So whoever has finished
/// a block knows that its children have begun it, which is what RmaStaging's
/// argument needs here: a rank writes to nobody but its children.
///
/// Rounds: ceil(log2 n) for the last rank to have it; bytes: each rank sends
/// the block to its children, the root to ceil(log2 n) of them.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas);

/// What both exchanges of messages have in common.
class RmaExchangeWork : public RmaWork {
 protected:
  RmaExchangeWork(const RmaPipeline& pipeline, const Descriptor& descriptor, std::size_t share)
      : RmaWork(pipeline), descriptor_(descriptor), share_(share) {}

  int rank() const { return staging().rank(); }
  int size() const { return staging().size(); }
  const Descriptor& descriptor() const { return descriptor_; }
  std::size_t share() const { return share_; }
  std::uint64_t count_of(int member) const { return pipeline().stream().check->count_of(member); }
  void cut(std::size_t longest) { num_blocks = (longest + share_ - 1) / share_; }

 private:
  Descriptor descriptor_;
  std::size_t share_;
};

/// Exchange of messages by all with all, see exchange.hpp.
class RmaExchange : public RmaExchangeWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return schedules_[index % schedules_.size()];
  }

 protected:
  RmaExchange(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts parts);

  std::byte* outgoing(int member, std::uint64_t index) const;
  void send(int member, std::uint64_t index, std::size_t num_bytes);
  const std::byte* incoming(int member, std::uint64_t index) const;

 private:
  SentParts parts_;
  std::vector<Schedule> schedules_;  // one per block under way
};

/// Exchange of messages from the root to all.
class RmaTree : public RmaExchangeWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return index + 1 == num_blocks ? last_ : full_;
  }

 protected:
  RmaTree(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts parts);

  void cut(std::size_t num_bytes);
  std::byte* outgoing(int /*member*/, std::uint64_t index) const {
    return slot(index) + staging().areas().work;
  }
  const std::byte* incoming(int member, std::uint64_t index) const {
    return outgoing(member, index);
  }

 private:
  Schedule full_;  // of all blocks but the last
  Schedule last_;
};

/// Barrier by dissemination: the fingerprint check that every call begins with, and
/// nothing else. ceil(log2 n) rounds, one message of 16 bytes per rank in each.
class RmaBarrier final : public RmaWork {
 public:
  RmaBarrier(const RmaPipeline& pipeline, const Descriptor&, const CallArrays&)
      : RmaWork(pipeline) {}
  const Schedule& schedule_of(std::uint64_t) const override { return nothing_; }

 private:
  Schedule nothing_;
};

/// See make_exchange().
struct RmaWorld {
  template <typename Work>
  using Call = RmaCall<Work>;
  using Stream = RmaStream;
  using Exchange = RmaExchange;
  using Barrier = RmaBarrier;
  using Tree = RmaTree;
};

}  // namespace tnt::comm
