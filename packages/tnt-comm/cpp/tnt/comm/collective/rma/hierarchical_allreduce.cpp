#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {
namespace {

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

HierarchicalAllreduce::HierarchicalAllreduce(const RmaPipeline& pipeline,
                                             const Descriptor& descriptor, HostLevel host,
                                             const MessagePattern& pattern,
                                             const CallArrays& arrays)
    : BlockReduction(pipeline, pattern, accumulator_of(descriptor.dtype), descriptor.op),
      host_(std::move(host)),
      dtype_(descriptor.dtype),
      element_bytes_(size_of(dtype_)),
      partial_bytes_(size_of(accumulator_of(dtype_))),
      count_(descriptor.count),
      in_(static_cast<const std::byte*>(arrays.in)),
      out_(static_cast<std::byte*>(arrays.out)),
      block_elements_(elements_of_blocks(
          channel(), longest_block(pattern.exchange, staging().size(), staging().layout().areas),
          dtype_)),
      on_host_(dtype_, descriptor.op, static_cast<std::size_t>(channel().size())),
      operands_(static_cast<std::size_t>(channel().size())) {
  num_blocks = std::max<std::size_t>(1, (count_ + block_elements_ - 1) / block_elements_);
  exchange_copied(chunk(0).size() * partial_bytes_, chunk(num_blocks - 1).size() * partial_bytes_);
}

HierarchicalAllreduce::HierarchicalAllreduce(const RmaPipeline& pipeline, HostLevel host,
                                             const MessagePattern& pattern, DType dtype,
                                             std::size_t count)
    : BlockReduction(pipeline, pattern, accumulator_of(dtype), ReduceOp::sum),
      host_(std::move(host)),
      dtype_(dtype),
      element_bytes_(size_of(dtype)),
      partial_bytes_(size_of(accumulator_of(dtype))),
      count_(count),
      on_host_(dtype, ReduceOp::sum, static_cast<std::size_t>(channel().size())),
      operands_(static_cast<std::size_t>(channel().size())) {
  const Range own = chunk_of(count, dtype, channel().size(), channel().rank());
  for (const Range& bytes : exchange_in_place(own.size() * partial_bytes_)) {
    chunks_.push_back(
        {own.begin + bytes.begin / partial_bytes_, own.begin + bytes.end / partial_bytes_});
  }
}

// A step of an array in place is one block there.
std::uint64_t HierarchicalAllreduce::block_on_host(std::uint64_t index) const {
  return is_in_place() ? pipeline().base() / num_blocks : pipeline().base() + index;
}

Range HierarchicalAllreduce::block(std::uint64_t index) const {
  const std::size_t begin = index * block_elements_;
  return {begin, std::min<std::size_t>(begin + block_elements_, count_)};
}

Range HierarchicalAllreduce::chunk(std::uint64_t index) const {
  if (is_in_place()) return chunks_[index];
  return chunk_of(block(index).size(), dtype_, channel().size(), channel().rank());
}

std::byte* HierarchicalAllreduce::array_of(int local_rank, std::uint64_t index) const {
  const std::uint64_t block = block_on_host(index);
  if (!is_in_place()) return channel().slot_of(local_rank, block);
  const std::size_t offset = host_.slots->offset_of(channel().packed_slot_of(local_rank, block));
  Segment& segment = *host_.segment;
  return (local_rank == segment.rank() ? segment.local() : segment.writable_peer(local_rank)) +
         offset;
}

void HierarchicalAllreduce::copy_in(std::uint64_t index) {
  const Range elements = block(index);
  if (elements.size() > 0) {
    std::memcpy(channel().slot(block_on_host(index)), in_ + elements.begin * element_bytes_,
                elements.size() * element_bytes_);
  }
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
  if (is_in_place()) return;
  const Range elements = block(index);
  if (elements.size() == 0) return;
  std::memcpy(out_ + elements.begin * element_bytes_, channel().slot(block_on_host(index)),
              elements.size() * element_bytes_);
}

void HierarchicalAllreduce::append_missing(std::vector<int>& members) const {
  const int host = staging().rank();
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
