#include "tnt/comm/collective/rma/allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

std::size_t num_operands(const Exchange& exchange, int size) {
  int largest = 1;
  for (const Level& level : levels_of(size, exchange.radices)) {
    largest = std::max(largest, level.radix);
  }
  return static_cast<std::size_t>(largest);
}

}  // namespace

RmaAllreduce::RmaAllreduce(std::shared_ptr<AbortState> abort_state,
                           std::shared_ptr<FingerprintCheck> fingerprint_check,
                           std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                           const Exchange& exchange, bool is_pipelined, const void* in, void* out)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      element_bytes_(size_of(descriptor.dtype)),
      num_bytes_(descriptor.count * element_bytes_),
      block_bytes_(longest_block(exchange, channel().size(), channel().layout().areas)),
      reducer_(descriptor.dtype, descriptor.op, num_operands(exchange, channel().size())) {
  sends_before_match = true;
  if (!is_pipelined) most_blocks_in_flight = 1;
  num_blocks = std::max<std::size_t>(1, (num_bytes_ + block_bytes_ - 1) / block_bytes_);
  const auto schedule = [&](std::uint64_t index) {
    return allreduce_schedule(exchange, channel().rank(), channel().size(), block(index).size(),
                              channel().areas());
  };
  if (num_blocks > 1) full_ = schedule(0);
  last_ = schedule(num_blocks - 1);
}

Range RmaAllreduce::block(std::uint64_t index) const {
  const std::size_t begin = index * block_bytes_;
  return {begin, std::min(begin + block_bytes_, num_bytes_)};
}

const Schedule& RmaAllreduce::schedule_of(std::uint64_t index) const {
  return index + 1 == num_blocks ? last_ : full_;
}

void RmaAllreduce::copy_in(std::uint64_t index) {
  const Range bytes = block(index);
  if (bytes.size() == 0) return;
  std::memcpy(slot(index) + channel().areas().work, in_ + bytes.begin, bytes.size());
}

void RmaAllreduce::copy_out(std::uint64_t index) {
  const Range bytes = block(index);
  if (bytes.size() == 0) return;
  std::memcpy(out_ + bytes.begin, slot(index) + schedule_of(index).result, bytes.size());
}

}  // namespace tnt::comm
