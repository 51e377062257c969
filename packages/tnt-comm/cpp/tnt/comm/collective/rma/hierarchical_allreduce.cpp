#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kWidenedElements = 2048;  // stay in the first-level cache

// What one call reduces, and what it distributes, at most.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

// Elements of a block whose chunks are equally long, begin on cache lines, and
// fit in a slot of the host and in one of the exchange.
std::size_t elements_of_blocks(const Channel& on_host, std::size_t longest_exchanged, DType dtype) {
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
      operands_(static_cast<std::size_t>(channel().size())),
      on_host_(dtype_, descriptor.op, operands_.size()) {
  if (is_in_place()) {
    const Range own = chunk_of(descriptor.count, dtype_, channel().size(), channel().rank());
    for (const Range& bytes : exchange_in_place(own.size() * partial_bytes_)) {
      chunks_.push_back(
          {own.begin + bytes.begin / partial_bytes_, own.begin + bytes.end / partial_bytes_});
    }
    return;
  }
  const std::size_t longest = longest_block(pattern.scheme, stream().size(), stream().layout.areas);
  cut(descriptor.num_bytes(), elements_of_blocks(channel(), longest, dtype_) * element_bytes_);
  exchange_copied(chunk(0).size() * partial_bytes_, chunk(num_blocks - 1).size() * partial_bytes_);
}

// A step of an array in place is one block there.
std::uint64_t HierarchicalAllreduce::block_on_host(std::uint64_t index) const {
  return is_in_place() ? pipeline().base() / num_blocks : pipeline().base() + index;
}

Range HierarchicalAllreduce::chunk(std::uint64_t index) const {
  if (is_in_place()) return chunks_[index];
  return chunk_of(block(index).size() / element_bytes_, dtype_, channel().size(), channel().rank());
}

std::byte* HierarchicalAllreduce::array_of(int local_rank, std::uint64_t index) const {
  const std::uint64_t block = block_on_host(index);
  if (!is_in_place()) return channel().slot_of(local_rank, block);
  const std::size_t offset =
      host_.slots->offset_of(channel().packed_slot_of(local_rank, block) % DoubleBuffer::kNumSlots);
  Segment& segment = *host_.segment;
  return (local_rank == segment.rank() ? segment.local() : segment.writable_peer(local_rank)) +
         offset;
}

void HierarchicalAllreduce::copy_in(std::uint64_t index) {
  copy_to(channel().slot(block_on_host(index)), index);
  channel().post(block_on_host(index));
}

Progress HierarchicalAllreduce::prepare(std::uint64_t index) {
  if (!channel().have_all_posted(block_on_host(index))) return Progress::pending;
  const Range own = chunk(index);
  const std::size_t begin = own.begin + num_reduced_;
  const std::size_t length = std::min(own.end - begin, kBytesPerTurn / partial_bytes_);
  for (int local_rank = 0; local_rank < channel().size(); ++local_rank) {
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
  std::byte* const sum = array_of(channel().rank(), index) + begin * element_bytes_;
  on_host_.round(sum, result(index) + num_distributed_ * partial_bytes_, length);
  for (int local_rank = 0; local_rank < channel().size() && length > 0; ++local_rank) {
    if (local_rank == channel().rank()) continue;
    std::memcpy(array_of(local_rank, index) + begin * element_bytes_, sum, length * element_bytes_);
  }
  num_distributed_ += length;
  if (num_distributed_ < own.size()) return Progress::advanced;
  num_distributed_ = 0;
  if (!is_in_place() || index + 1 == num_blocks) channel().publish_reduced(block_on_host(index));
  return Progress::done;
}

bool HierarchicalAllreduce::is_complete(std::uint64_t index) {
  return (is_in_place() && index + 1 < num_blocks) ||
         channel().have_all_reduced(block_on_host(index));
}

void HierarchicalAllreduce::copy_out(std::uint64_t index) {
  if (!is_in_place()) copy_from(channel().slot(block_on_host(index)), index);
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
    append_local(channel().missing_posts(block_on_host(blocks.num_sent())));
  }
  std::vector<int> hosts;
  blocks.append_missing(hosts);
  for (const int other : hosts) {
    members.push_back(host_.hosts.member_at(other, channel().rank()));
  }
  if (blocks.num_finished() < blocks.num_distributed()) {
    append_local(channel().missing_reductions(block_on_host(blocks.num_finished())));
  }
}

}  // namespace tnt::comm
