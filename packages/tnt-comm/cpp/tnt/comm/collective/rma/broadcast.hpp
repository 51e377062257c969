#pragma once

#include <cstddef>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// What `member` of `size` does to take one block of `num_bytes` from the root
/// to everybody, along a binomial tree: once the root has sent the block to the
/// rank half the group away there are two who have it, then four. Blocks go
/// straight into the work areas, from which they are sent on.
///
/// A rank answers its parent as soon as it has a block. So whoever has finished
/// a block knows that its children have begun it, which is what RmaChannel's
/// argument needs here: a rank writes to nobody but its children.
///
/// Rounds: ceil(log2 n) for the last rank to have it; bytes: each rank sends
/// the block to its children, the root to ceil(log2 n) of them.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas);

/// Broadcast of arrays of any length: blocks of a slot follow each other down
/// the tree, so that a long array takes little more time than its way to the
/// root's children.
class RmaBroadcast final : public RmaOperation {
 public:
  /// `in` is read by the root only; `out` is written by everybody, on the root
  /// unless it is `in`.
  RmaBroadcast(std::shared_ptr<AbortState> abort_state,
               std::shared_ptr<FingerprintCheck> fingerprint_check,
               std::shared_ptr<RmaStream> stream, const Descriptor& descriptor, const void* in,
               void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;

 private:
  bool is_root() const { return channel().rank() == static_cast<int>(descriptor().root); }
  Range block(std::uint64_t index) const;  // bytes
  std::byte* place(std::uint64_t index) const { return slot(index) + channel().areas().work; }

  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_;
  Schedule full_;  // of all blocks but the last
  Schedule last_;
};

}  // namespace tnt::comm
