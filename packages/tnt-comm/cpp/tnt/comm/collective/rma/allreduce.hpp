#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tnt/comm/collective/rma/rma_pipeline.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

// The blocks of an array that is packed in its slot.
inline std::vector<Range> blocks_in_place(const MessagePattern& pattern, std::size_t num_bytes) {
  // Large enough that a message's way is short next to what it takes to send it,
  // also when it is cut for eight ranks; and not so many that the counters of the
  // notifications, of 31 bits on some networks, run full in a long training.
  constexpr std::size_t kSmallestBlockBytes = 256 * 1024;
  constexpr std::size_t kMostBlocks = 16;
  const bool is_cut = pattern.scheme.is_split && pattern.has_many_blocks_under_way;
  const std::size_t wanted = is_cut ? num_bytes / kSmallestBlockBytes : 1;
  const std::size_t num_blocks = std::clamp<std::size_t>(wanted, 1, kMostBlocks);
  std::vector<Range> blocks;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    blocks.push_back(part_of(num_bytes, num_blocks, i, kCacheLineBytes));
  }
  return blocks;
}

/// The layout for an array of `num_bytes` that is packed in its slot, and cut into the
/// blocks that may be under way at once: several (`pipelined`), so that some are on the network
/// while others are summed, or one (`halving_doubling`), with the fewest messages.
///
/// Twice the array and the landing area, which is as large for split exchanges, and S
/// times as large for whole ones (see LevelScheme), which are for small arrays.
inline RmaLayout layout_in_place(const MessagePattern& pattern, const SumTree& tree,
                                 std::size_t num_bytes) {
  RmaLayout layout;
  const std::vector<Range> blocks = blocks_in_place(pattern, num_bytes);
  for (const Range& block : blocks) {
    const AreaSizes sizes = allreduce_areas(pattern.scheme, tree, block.size());
    layout.areas.work += sizes.work;
    layout.areas.landing += sizes.landing;
  }
  layout.depth = layout.blocks_per_slot = blocks.size();
  return layout;
}

/// What it needs of a segment of Senders::one.
inline MemoryNeeds needs_in_place(const MessagePattern& pattern, const SumTree& tree,
                                  std::size_t num_bytes) {
  return {layout_in_place(pattern, tree, num_bytes).num_bytes(),
          num_arrivals(pattern.scheme, tree)};
}

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
                 ReduceOp op, const CallArrays& arrays)
      : RmaWork(pipeline),
        pattern_(pattern),
        element_bytes_(size_of(dtype)),
        in_(static_cast<const std::byte*>(arrays.in)),
        out_(static_cast<std::byte*>(arrays.out)),
        reducer_(dtype, op, tree_of_teams(pattern.scheme, stream().tree)) {
    sends_before_match = true;
  }

  /// The private arrays are cut into blocks.
  void cut(std::size_t num_bytes, std::size_t block_bytes) {
    num_bytes_ = num_bytes;
    block_bytes_ = block_bytes;
    num_blocks = std::max<std::size_t>(1, (num_bytes + block_bytes - 1) / block_bytes);
  }

  Range block(std::uint64_t index) const { return block_of(index, block_bytes_, num_bytes_); }
  Range whole(std::uint64_t index) const { return {0, block(index).size()}; }
  /// Copies bytes of a block of them; nothing if there are none.
  void copy_to(std::byte* slot, std::uint64_t index, const Range& bytes) const {
    if (bytes.size() > 0) std::memcpy(slot + bytes.begin, in(index) + bytes.begin, bytes.size());
  }

  void copy_from(const std::byte* slot, std::uint64_t index, const Range& bytes) const {
    if (bytes.size() > 0) std::memcpy(out(index) + bytes.begin, slot + bytes.begin, bytes.size());
  }

  /// The blocks come through slots of their own: so long are all but the last, and the last.
  void exchange_copied(std::size_t num_bytes, std::size_t last_bytes) {
    if (!pattern_.has_many_blocks_under_way) most_blocks_in_flight = 1;
    if (num_blocks > 1) add_exchange(num_bytes, stream().areas());
    add_exchange(last_bytes, stream().areas());
  }

  /// The array of `num_bytes` lies in a slot, see layout_in_place(). Returns the blocks, in bytes.
  std::vector<Range> exchange_in_place(std::size_t num_bytes) {
    std::vector<Range> blocks = blocks_in_place(pattern_, num_bytes);
    num_blocks = blocks.size();
    Areas areas = stream().areas();
    for (const Range& block : blocks) {
      add_exchange(block.size(), areas);
      number_arrivals(exchanges_.back().schedule);
      const AreaSizes sizes = allreduce_areas(pattern_.scheme, stream().tree, block.size());
      areas.work += sizes.work;
      areas.landing += sizes.landing;
    }
    return blocks;
  }

  /// What this rank exchanges is put here, and found there.
  std::byte* input(std::uint64_t index) const {
    return slot(index) + exchanges_[exchange_of(index)].input;
  }
  const std::byte* result(std::uint64_t index) const {
    return slot(index) + schedule_of(index).result;
  }

  /// Bytes of a block that are not sent but summed by this rank, and their sums sent; of whole
  /// exchanges there are none.
  Range own_part(std::uint64_t index) const {
    const Schedule& schedule = schedule_of(index);
    if (in_ == nullptr || schedule.rounds.empty()) return {};
    const Round& first = schedule.rounds.front();
    if (std::ranges::count(first.operands, first.target) == 0) return {};
    const std::size_t begin = first.target - exchanges_[exchange_of(index)].input;
    return {begin, begin + first.num_bytes};
  }

  const std::byte* in(std::uint64_t index) const { return in_ + block(index).begin; }
  std::byte* out(std::uint64_t index) const { return out_ + block(index).begin; }

 private:
  struct BlockExchange {
    Schedule schedule;
    std::size_t input = 0;  // where it begins in the slot
  };

  // By which a rank combines what its team has sent. The teams of folds have as many members as
  // these say, which are combined one after the other.
  static SumTree tree_of_teams(const LevelScheme& scheme, const SumTree& tree) {
    const bool has_folds = scheme.radices == Radices::primes && tree.size() > 1;
    return has_folds ? SumTree(*std::ranges::max_element(tree.folds())) : tree;
  }

  void add_exchange(std::size_t num_bytes, const Areas& areas) {
    exchanges_.push_back(
        {allreduce_schedule(pattern_.scheme, stream().rank(), stream().tree, num_bytes, areas),
         areas.work});
  }

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
/// *Packed in place*, the persistent one: the array lies in registered memory, is sent from there,
/// and its sum comes back there, without a copy. Messages may still be on their way when a rank has
/// the result, so the next step is packed into the other slot, and none can be lent.
class RmaAllreduce final : public BlockReduction {
 public:
  RmaAllreduce(const RmaPipeline& pipeline, const Descriptor& descriptor,
               const MessagePattern& pattern, const CallArrays& arrays)
      : BlockReduction(pipeline, pattern, descriptor.dtype, descriptor.op, arrays) {
    const std::size_t longest = longest_block(pattern.scheme, stream().tree, stream().layout.areas);
    cut(descriptor.num_bytes(), longest);
    exchange_copied(longest, block(num_blocks - 1).size());
  }

  RmaAllreduce(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
               std::size_t count)
      : BlockReduction(pipeline, pattern, dtype, ReduceOp::sum, {}) {
    exchange_in_place(count * size_of(dtype));
    takes_turns = false;
  }

  void on_match() override { has_matched_ = true; }

  void copy_in(std::uint64_t index) override {
    const Range own = own_part(index);
    copy_to(input(index), index, {0, own.begin});
    copy_to(input(index), index, {own.end, block(index).size()});
  }

  // In the last round of a split exchange comes what was sent in the first one, summed: all but the
  // own part. A rank sends it only when it has what this rank sends first, so it cannot come
  // before.
  Progress prepare(std::uint64_t index) override {
    is_redirected_[index % is_redirected_.size()] = has_matched_ && redirect(index);
    return Progress::done;
  }

  const std::byte* own_operand(std::uint64_t index) const override {
    const Range own = own_part(index);
    return own.size() == 0 ? nullptr : in(index) + own.begin;
  }

  void copy_out(std::uint64_t index) override {
    if (!is_redirected_[index % is_redirected_.size()]) {
      return copy_from(result(index), index, whole(index));
    }
    end_redirect(index);
    copy_from(result(index), index, own_part(index));
  }

  void release_arrays() override {
    if (!has_matched_) return;
    for (std::uint64_t index = pipeline().num_finished(); index < pipeline().num_sent(); ++index) {
      if (is_redirected_[index % is_redirected_.size()]) end_redirect(index);
    }
  }

 private:
  // In the segment.
  std::size_t place_of_result(std::uint64_t index) const {
    return stream().slot_offset(pipeline().base() + index) + schedule_of(index).result;
  }

  bool redirect(std::uint64_t index) {
    const Range own = own_part(index);
    if (own.size() == 0) return false;
    const std::size_t to = place_of_result(index);
    Segment& segment = *stream().segment;
    return segment.redirect(to, own.begin, out(index)) &&
           segment.redirect(to + own.end, block(index).size() - own.end, out(index) + own.end);
  }

  void end_redirect(std::uint64_t index) {
    const std::size_t to = place_of_result(index);
    stream().segment->end_redirect(to);
    stream().segment->end_redirect(to + own_part(index).end);
  }

  bool has_matched_ = false;
  std::vector<bool> is_redirected_ = std::vector<bool>(stream().layout.depth);  // blocks under way
};

}  // namespace tnt::comm
