#include "tnt/comm/collective/rma/allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {
namespace {

// Large enough that a message's way is short next to what it takes to send it,
// also when it is cut for eight ranks; and not so many that the counters of the
// notifications, of 31 bits on some networks, run full in a long training.
constexpr std::size_t kSmallestBlockBytes = 256 * 1024;
constexpr std::size_t kMostBlocks = 16;

std::vector<Range> blocks_in_place(const MessagePattern& pattern, std::size_t num_bytes) {
  const bool is_cut = pattern.scheme.is_split && pattern.has_many_blocks_under_way;
  const std::size_t wanted = is_cut ? num_bytes / kSmallestBlockBytes : 1;
  const std::size_t num_blocks = std::clamp<std::size_t>(wanted, 1, kMostBlocks);
  std::vector<Range> blocks;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    blocks.push_back(part_of(num_bytes, num_blocks, i, kCacheLineBytes));
  }
  return blocks;
}

std::size_t num_operands(const LevelScheme& scheme, int size) {
  int largest = 1;
  for (const Level& level : levels_of(size, scheme.radices)) {
    largest = std::max(largest, level.radix);
  }
  return static_cast<std::size_t>(largest);
}

}  // namespace

RmaLayout layout_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes) {
  RmaLayout layout;
  const std::vector<Range> blocks = blocks_in_place(pattern, num_bytes);
  for (const Range& block : blocks) {
    const AreaSizes sizes = allreduce_areas(pattern.scheme, size, block.size());
    layout.areas.work += sizes.work;
    layout.areas.landing += sizes.landing;
  }
  layout.depth = layout.blocks_per_slot = blocks.size();
  return layout;
}

MemoryNeeds needs_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes) {
  return {layout_in_place(pattern, size, num_bytes).num_bytes(),
          num_arrivals(pattern.scheme, size)};
}

BlockReduction::BlockReduction(const RmaPipeline& pipeline, const MessagePattern& pattern,
                               DType dtype, ReduceOp op, const CallArrays& arrays)
    : RmaWork(pipeline),
      pattern_(pattern),
      element_bytes_(size_of(dtype)),
      in_(static_cast<const std::byte*>(arrays.in)),
      out_(static_cast<std::byte*>(arrays.out)),
      reducer_(dtype, op, num_operands(pattern.scheme, stream().size())) {
  sends_before_match = true;
}

void BlockReduction::cut(std::size_t num_bytes, std::size_t block_bytes) {
  num_bytes_ = num_bytes;
  block_bytes_ = block_bytes;
  num_blocks = std::max<std::size_t>(1, (num_bytes + block_bytes - 1) / block_bytes);
}

void BlockReduction::copy_to(std::byte* slot, std::uint64_t index, const Range& bytes) const {
  if (bytes.size() > 0) std::memcpy(slot + bytes.begin, in(index) + bytes.begin, bytes.size());
}

void BlockReduction::copy_from(const std::byte* slot, std::uint64_t index,
                               const Range& bytes) const {
  if (bytes.size() > 0) std::memcpy(out(index) + bytes.begin, slot + bytes.begin, bytes.size());
}

void BlockReduction::exchange_copied(std::size_t num_bytes, std::size_t last_bytes) {
  if (!pattern_.has_many_blocks_under_way) most_blocks_in_flight = 1;
  const auto add = [&](std::size_t block_bytes) {
    exchanges_.push_back({allreduce_schedule(pattern_.scheme, stream().rank(), stream().size(),
                                             block_bytes, stream().areas()),
                          stream().areas().work});
  };
  if (num_blocks > 1) add(num_bytes);
  add(last_bytes);
}

std::vector<Range> BlockReduction::exchange_in_place(std::size_t num_bytes) {
  const int size = stream().size();
  std::vector<Range> blocks = blocks_in_place(pattern_, num_bytes);
  num_blocks = blocks.size();
  Areas areas = stream().areas();
  for (const Range& block : blocks) {
    exchanges_.push_back(
        {allreduce_schedule(pattern_.scheme, stream().rank(), size, block.size(), areas),
         areas.work});
    number_arrivals(exchanges_.back().schedule);
    const AreaSizes sizes = allreduce_areas(pattern_.scheme, size, block.size());
    areas.work += sizes.work;
    areas.landing += sizes.landing;
  }
  return blocks;
}

Range BlockReduction::own_part(std::uint64_t index) const {
  const Schedule& schedule = schedule_of(index);
  if (in_ == nullptr || schedule.rounds.empty()) return {};
  const Round& first = schedule.rounds.front();
  if (std::ranges::count(first.operands, first.target) == 0) return {};
  const std::size_t begin = first.target - exchanges_[exchange_of(index)].input;
  return {begin, begin + first.num_bytes};
}

RmaAllreduce::RmaAllreduce(const RmaPipeline& pipeline, const Descriptor& descriptor,
                           const MessagePattern& pattern, const CallArrays& arrays)
    : BlockReduction(pipeline, pattern, descriptor.dtype, descriptor.op, arrays) {
  const std::size_t longest = longest_block(pattern.scheme, stream().size(), stream().layout.areas);
  cut(descriptor.num_bytes(), longest);
  exchange_copied(longest, block(num_blocks - 1).size());
}

RmaAllreduce::RmaAllreduce(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
                           std::size_t count)
    : BlockReduction(pipeline, pattern, dtype, ReduceOp::sum, {}) {
  exchange_in_place(count * size_of(dtype));
  takes_turns = false;
}

void RmaAllreduce::copy_in(std::uint64_t index) {
  const Range own = own_part(index);
  copy_to(input(index), index, {0, own.begin});
  copy_to(input(index), index, {own.end, block(index).size()});
}

const std::byte* RmaAllreduce::own_operand(std::uint64_t index) const {
  const Range own = own_part(index);
  return own.size() == 0 ? nullptr : in(index) + own.begin;
}

// In the last round of a split exchange comes what was sent in the first one, summed: all but the
// own part. A rank sends it only when it has what this rank sends first, so it cannot come before.
Progress RmaAllreduce::prepare(std::uint64_t index) {
  is_redirected_[index % is_redirected_.size()] = has_matched_ && redirect(index);
  return Progress::done;
}

std::size_t RmaAllreduce::place_of_result(std::uint64_t index) const {
  return stream().slot_offset(pipeline().base() + index) + schedule_of(index).result;
}

bool RmaAllreduce::redirect(std::uint64_t index) {
  const Range own = own_part(index);
  if (own.size() == 0) return false;
  const std::size_t to = place_of_result(index);
  Segment& segment = *stream().segment;
  return segment.redirect(to, own.begin, out(index)) &&
         segment.redirect(to + own.end, block(index).size() - own.end, out(index) + own.end);
}

void RmaAllreduce::end_redirect(std::uint64_t index) {
  const std::size_t to = place_of_result(index);
  stream().segment->end_redirect(to);
  stream().segment->end_redirect(to + own_part(index).end);
}

void RmaAllreduce::copy_out(std::uint64_t index) {
  if (!is_redirected_[index % is_redirected_.size()]) return copy_from(result(index), index);
  end_redirect(index);
  copy_from(result(index), index, own_part(index));
}

void RmaAllreduce::release_arrays() {
  if (!has_matched_) return;
  for (std::uint64_t index = pipeline().num_finished(); index < pipeline().num_sent(); ++index) {
    if (is_redirected_[index % is_redirected_.size()]) end_redirect(index);
  }
}

}  // namespace tnt::comm
