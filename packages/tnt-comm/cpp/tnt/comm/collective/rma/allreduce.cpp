#include "tnt/comm/collective/rma/allreduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tnt/comm/kernel/table.hpp"

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

namespace {

constexpr std::size_t kWidenedElements = 2048;  // stay in the first-level cache

// What one call reduces, and what it distributes, at most.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

// Elements of a block whose chunks are equally long, begin on cache lines, and
// fit in a slot of the host and in one of the exchange.
std::size_t elements_of_blocks(const SlotRing& on_host, std::size_t longest_exchanged,
                               DType dtype) {
  const auto num_chunks = static_cast<std::size_t>(on_host.size());
  const std::size_t exchanged = longest_exchanged / size_of(accumulator_of(dtype));
  const std::size_t local = on_host.slot_bytes() / num_chunks / size_of(dtype);
  const std::size_t line = kCacheLineBytes / size_of(dtype);
  return std::min(exchanged, local) / line * line * num_chunks;
}

}  // namespace

PartialReducer::PartialReducer(DType dtype, ReduceOp op, std::size_t max_sources)
    : dtype_(dtype), reducer_(accumulator_of(dtype), op, max_sources), operands_(max_sources) {
  if (is_rounded()) widened_.assign(max_sources, std::vector<float>(kWidenedElements));
}

void PartialReducer::reduce(std::byte* dst, const std::byte* const* sources,
                            std::size_t num_sources, std::size_t count) {
  if (!is_rounded()) {
    reducer_.reduce(dst, sources, num_sources, count);
    return;
  }
  const auto widen = kernels().widen[static_cast<std::size_t>(dtype_)];
  for (std::size_t begin = 0; begin < count; begin += kWidenedElements) {
    const std::size_t length = std::min(kWidenedElements, count - begin);
    for (std::size_t i = 0; i < num_sources; ++i) {
      const std::byte* source = sources[i] + begin * sizeof(std::uint16_t);
      widen(widened_[i].data(), reinterpret_cast<const std::uint16_t*>(source), length);
      operands_[i] = reinterpret_cast<const std::byte*>(widened_[i].data());
    }
    reducer_.reduce(dst + begin * sizeof(float), operands_.data(), num_sources, length);
  }
}

void PartialReducer::round(std::byte* dst, const std::byte* src, std::size_t count) const {
  if (count == 0) return;
  if (!is_rounded()) {
    std::memcpy(dst, src, count * size_of(dtype_));
    return;
  }
  kernels().narrow[static_cast<std::size_t>(dtype_)](reinterpret_cast<std::uint16_t*>(dst),
                                                     reinterpret_cast<const float*>(src), count);
}

HierarchicalAllreduce::HierarchicalAllreduce(const RmaPipeline& pipeline,
                                             const Descriptor& descriptor, HostLevel host,
                                             const MessagePattern& pattern,
                                             const CallArrays& arrays)
    : BlockReduction(pipeline, pattern, accumulator_of(descriptor.dtype), descriptor.op, arrays),
      host_(std::move(host)),
      dtype_(descriptor.dtype),
      operands_(static_cast<std::size_t>(ring().size())),
      on_host_(dtype_, descriptor.op, operands_.size()) {
  if (is_in_place()) {
    const Range own = chunk_of(descriptor.count, dtype_, ring().size(), ring().rank());
    for (const Range& bytes : exchange_in_place(own.size() * partial_bytes_)) {
      chunks_.push_back(
          {own.begin + bytes.begin / partial_bytes_, own.begin + bytes.end / partial_bytes_});
    }
    return;
  }
  const std::size_t longest = longest_block(pattern.scheme, stream().size(), stream().layout.areas);
  cut(descriptor.num_bytes(), elements_of_blocks(ring(), longest, dtype_) * element_bytes_);
  exchange_copied(chunk(0).size() * partial_bytes_, chunk(num_blocks - 1).size() * partial_bytes_);
}

// A step of an array in place is one block there.
std::uint64_t HierarchicalAllreduce::block_on_host(std::uint64_t index) const {
  return is_in_place() ? pipeline().base() / num_blocks : pipeline().base() + index;
}

Range HierarchicalAllreduce::chunk(std::uint64_t index) const {
  if (is_in_place()) return chunks_[index];
  return chunk_of(block(index).size() / element_bytes_, dtype_, ring().size(), ring().rank());
}

std::byte* HierarchicalAllreduce::array_of(int local_rank, std::uint64_t index) const {
  const std::uint64_t block = block_on_host(index);
  if (!is_in_place()) return ring().slot_of(local_rank, block);
  const std::size_t offset =
      host_.slots->offset_of(ring().packed_slot_of(local_rank, block) % DoubleBuffer::kNumSlots);
  Segment& segment = *host_.segment;
  return (local_rank == segment.rank() ? segment.local() : segment.writable_peer(local_rank)) +
         offset;
}

void HierarchicalAllreduce::copy_in(std::uint64_t index) {
  copy_to(ring().slot(block_on_host(index)), index);
  ring().post(block_on_host(index));
}

Progress HierarchicalAllreduce::prepare(std::uint64_t index) {
  if (!ring().have_all_posted(block_on_host(index))) return Progress::pending;
  const Range own = chunk(index);
  const std::size_t begin = own.begin + num_reduced_;
  const std::size_t length = std::min(own.end - begin, kBytesPerTurn / partial_bytes_);
  for (int local_rank = 0; local_rank < ring().size(); ++local_rank) {
    operands_[static_cast<std::size_t>(local_rank)] =
        array_of(local_rank, index) + begin * element_bytes_;
  }
  on_host_.reduce(input(index) + num_reduced_ * partial_bytes_, operands_.data(), operands_.size(),
                  length);
  num_reduced_ += length;
  if (num_reduced_ < own.size()) return Progress::advanced;
  num_reduced_ = 0;
  return Progress::done;
}

Progress HierarchicalAllreduce::distribute(std::uint64_t index) {
  const Range own = chunk(index);
  const std::size_t begin = own.begin + num_distributed_;
  const std::size_t length = std::min(own.end - begin, kBytesPerTurn / partial_bytes_);
  std::byte* const sum = array_of(ring().rank(), index) + begin * element_bytes_;
  on_host_.round(sum, result(index) + num_distributed_ * partial_bytes_, length);
  for (int local_rank = 0; local_rank < ring().size() && length > 0; ++local_rank) {
    if (local_rank == ring().rank()) continue;
    std::memcpy(array_of(local_rank, index) + begin * element_bytes_, sum, length * element_bytes_);
  }
  num_distributed_ += length;
  if (num_distributed_ < own.size()) return Progress::advanced;
  num_distributed_ = 0;
  if (!is_in_place() || index + 1 == num_blocks) ring().publish_reduced(block_on_host(index));
  return Progress::done;
}

bool HierarchicalAllreduce::is_complete(std::uint64_t index) {
  return (is_in_place() && index + 1 < num_blocks) || ring().have_all_reduced(block_on_host(index));
}

void HierarchicalAllreduce::copy_out(std::uint64_t index) {
  if (!is_in_place()) copy_from(ring().slot(block_on_host(index)), index);
}

void HierarchicalAllreduce::append_missing(std::vector<int>& members) const {
  const int host = stream().rank();
  const auto append_local = [&](const std::vector<int>& local_ranks) {
    for (const int local_rank : local_ranks) {
      members.push_back(host_.hosts.member_at(host, local_rank));
    }
  };
  const RmaPipeline& blocks = pipeline();
  if (blocks.num_sent() < blocks.num_filled()) {
    append_local(ring().missing_posts(block_on_host(blocks.num_sent())));
  }
  std::vector<int> hosts;
  blocks.append_missing(hosts);
  for (const int other : hosts) {
    members.push_back(host_.hosts.member_at(other, ring().rank()));
  }
  if (blocks.num_finished() < blocks.num_distributed()) {
    append_local(ring().missing_reductions(block_on_host(blocks.num_finished())));
  }
}

}  // namespace tnt::comm
