#include "tnt/comm/algorithm/broadcast.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

Range bytes_of_step(std::uint64_t index, std::size_t window, std::size_t num_bytes) {
  return {index * window, std::min<std::size_t>((index + 1) * window, num_bytes)};
}

}  // namespace

Broadcast::Broadcast(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
                     const Descriptor& descriptor, const void* in, void* out)
    : WindowedOperation(std::move(health), std::move(state), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      num_bytes_(descriptor.count * size_of(descriptor.dtype)) {
  const std::size_t window = channel().window_bytes();
  num_steps = std::max<std::size_t>(1, (num_bytes_ + window - 1) / window);
}

void Broadcast::copy_in(std::uint64_t index, std::byte* window) {
  const Range piece = bytes_of_step(index, channel().window_bytes(), num_bytes_);
  if (is_root() && num_bytes_ > 0) std::memcpy(window, in_ + piece.begin, piece.size());
}

void Broadcast::copy_out(std::uint64_t index) {
  const Range piece = bytes_of_step(index, channel().window_bytes(), num_bytes_);
  if (num_bytes_ == 0 || (is_root() && in_ == out_)) return;
  const std::byte* source = window_of(static_cast<int>(descriptor().root), index);
  std::memcpy(out_ + piece.begin, source, piece.size());
}

}  // namespace tnt::comm
