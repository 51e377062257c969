#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/rma/rma_pipeline.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// The layout for an array of `num_bytes` that is packed in its slot, and cut into the
/// blocks that may be under way at once: several (`pipelined`), so that some are on the network
/// while others are summed, or one (`halving_doubling`), with the fewest messages.
///
/// Twice the array and the landing area, which is as large for split exchanges, and S
/// times as large for whole ones (see LevelScheme), which are for small arrays.
RmaLayout layout_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes);

/// What it needs of a segment of Senders::one.
MemoryNeeds needs_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes);

/// The blocks of an allreduce, their exchanges, and the sums that these are for.
class BlockReduction : public RmaWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return exchanges_[exchange_of(index)].schedule;
  }
  Combiner combiner() final { return {&reducer_, element_bytes_}; }

 protected:
  /// `arrays`: private ones.
  BlockReduction(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
                 ReduceOp op, const CallArrays& arrays);

  /// The private arrays are cut into blocks.
  void cut(std::size_t num_bytes, std::size_t block_bytes);
  Range block(std::uint64_t index) const { return block_of(index, block_bytes_, num_bytes_); }
  /// Copies a block of them, or some bytes of it; nothing if there are none.
  void copy_to(std::byte* slot, std::uint64_t index) const {
    copy_to(slot, index, {0, block(index).size()});
  }
  void copy_to(std::byte* slot, std::uint64_t index, const Range& bytes) const;
  void copy_from(const std::byte* slot, std::uint64_t index) const {
    copy_from(slot, index, {0, block(index).size()});
  }
  void copy_from(const std::byte* slot, std::uint64_t index, const Range& bytes) const;

  /// The blocks come through slots of their own: so long are all but the last, and the last.
  void exchange_copied(std::size_t num_bytes, std::size_t last_bytes);
  /// The array of `num_bytes` lies in a slot, see layout_in_place(). Returns the blocks, in bytes.
  std::vector<Range> exchange_in_place(std::size_t num_bytes);

  /// What this rank exchanges is put here, and found there.
  std::byte* input(std::uint64_t index) const {
    return slot(index) + exchanges_[exchange_of(index)].input;
  }
  const std::byte* result(std::uint64_t index) const {
    return slot(index) + schedule_of(index).result;
  }
  /// Bytes of a block that are not sent but summed by this rank, and their sums sent; of whole
  /// exchanges there are none.
  Range own_part(std::uint64_t index) const;
  const std::byte* in(std::uint64_t index) const { return in_ + block(index).begin; }
  std::byte* out(std::uint64_t index) const { return out_ + block(index).begin; }

 private:
  struct BlockExchange {
    Schedule schedule;
    std::size_t input = 0;  // where it begins in the slot
  };

  std::size_t exchange_of(std::uint64_t index) const {
    // One per block, or one for the last and one for all others.
    return index + 1 == num_blocks ? exchanges_.size() - 1
                                   : std::min<std::size_t>(index, exchanges_.size() - 2);
  }

  MessagePattern pattern_;
  std::size_t element_bytes_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  std::vector<BlockExchange> exchanges_;
  TreeReducer reducer_;
};

/// Allreduce among ranks that can only put into each other's memory.
///
/// *Private arrays*: each block, as long as the slots allow, is copied into the
/// work area, as far as it is sent, exchanged (see LevelScheme for rounds and bytes) and copied
/// out. Of split exchanges, others' sums go straight to the array where the segment can do that,
/// once all are known to make the same call. With one block under way at a time a long array
/// alternates between the network and the reduction; with several, a block is on the network while
/// another one is reduced and a third one waits for the slowest rank, which is
/// the `pipelined` variant. Blocks: ceil(bytes / longest block).
///
/// *Packed in place*, the persistent one: the array lies in registered memory, is sent
/// from there, and its sum comes back to the same place, without a copy. Messages may
/// still be on their way when a rank has the result, so the next step is packed into the other
/// slot, and none can be lent.
class RmaAllreduce final : public BlockReduction {
 public:
  RmaAllreduce(const RmaPipeline& pipeline, const Descriptor& descriptor,
               const MessagePattern& pattern, const CallArrays& arrays);
  RmaAllreduce(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
               std::size_t count);

  void on_match() override { has_matched_ = true; }
  void copy_in(std::uint64_t index) override;
  Progress prepare(std::uint64_t index) override;
  const std::byte* own_operand(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;
  void release_arrays() override;

 private:
  std::size_t place_of_result(std::uint64_t index) const;  // in the segment
  bool redirect(std::uint64_t index);
  void end_redirect(std::uint64_t index);

  bool has_matched_ = false;
  std::vector<bool> is_redirected_ = std::vector<bool>(stream().layout.depth);  // blocks under way
};

}  // namespace tnt::comm
