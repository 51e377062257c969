#include "tnt/comm/collective/broadcast.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

Range bytes_of_block(std::uint64_t index, std::size_t slot, std::size_t num_bytes) {
  return {index * slot, std::min<std::size_t>((index + 1) * slot, num_bytes)};
}

}  // namespace

Broadcast::Broadcast(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                     const Descriptor& descriptor, const void* in, void* out)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      num_bytes_(descriptor.count * size_of(descriptor.dtype)) {
  const std::size_t slot = channel().slot_bytes();
  num_blocks = std::max<std::size_t>(1, (num_bytes_ + slot - 1) / slot);
}

void Broadcast::copy_in(std::uint64_t index, std::byte* slot) {
  const Range block = bytes_of_block(index, channel().slot_bytes(), num_bytes_);
  if (is_root() && num_bytes_ > 0) std::memcpy(slot, in_ + block.begin, block.size());
}

void Broadcast::copy_out(std::uint64_t index) {
  const Range block = bytes_of_block(index, channel().slot_bytes(), num_bytes_);
  if (num_bytes_ == 0 || (is_root() && in_ == out_)) return;
  const std::byte* source = slot_of(static_cast<int>(descriptor().root), index);
  std::memcpy(out_ + block.begin, source, block.size());
}

}  // namespace tnt::comm
