#include "tnt/comm/algorithm/network/allreduce.hpp"

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

NetworkAllreduce::NetworkAllreduce(std::shared_ptr<Health> health,
                                   std::shared_ptr<Agreement> agreement,
                                   std::shared_ptr<NetworkStream> stream,
                                   const Descriptor& descriptor, const Exchange& exchange,
                                   bool is_pipelined, const void* in, void* out)
    : NetworkOperation(std::move(health), std::move(agreement), std::move(stream), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      element_bytes_(size_of(descriptor.dtype)),
      num_bytes_(descriptor.count * element_bytes_),
      piece_bytes_(longest_piece(exchange, channel().size(), channel().layout().areas)),
      reducer_(descriptor.dtype, descriptor.op, num_operands(exchange, channel().size())) {
  sends_before_agreement = true;
  if (!is_pipelined) most_steps_under_way = 1;
  num_steps = std::max<std::size_t>(1, (num_bytes_ + piece_bytes_ - 1) / piece_bytes_);
  const auto schedule = [&](std::uint64_t index) {
    return allreduce_schedule(exchange, channel().rank(), channel().size(), piece(index).size(),
                              channel().areas());
  };
  if (num_steps > 1) full_ = schedule(0);
  last_ = schedule(num_steps - 1);
}

Range NetworkAllreduce::piece(std::uint64_t index) const {
  const std::size_t begin = index * piece_bytes_;
  return {begin, std::min(begin + piece_bytes_, num_bytes_)};
}

const Schedule& NetworkAllreduce::schedule_of(std::uint64_t index) const {
  return index + 1 == num_steps ? last_ : full_;
}

void NetworkAllreduce::copy_in(std::uint64_t index) {
  const Range bytes = piece(index);
  if (bytes.size() == 0) return;
  std::memcpy(window(index) + channel().areas().work, in_ + bytes.begin, bytes.size());
}

void NetworkAllreduce::copy_out(std::uint64_t index) {
  const Range bytes = piece(index);
  if (bytes.size() == 0) return;
  std::memcpy(out_ + bytes.begin, window(index) + schedule_of(index).result, bytes.size());
}

}  // namespace tnt::comm
