#include "tnt/comm/collective/alltoall.hpp"

#include <cstring>
#include <utility>

namespace tnt::comm {

Alltoall::Alltoall(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                   const Descriptor& descriptor, std::vector<Range> parts, const void* in,
                   void* out)
    : PartsOperation(std::move(abort_state), std::move(state), descriptor, std::move(parts), in),
      out_(static_cast<std::byte*>(out)) {}

void Alltoall::copy_in(std::uint64_t index, std::byte* slot) {
  if (descriptor().is_root(channel().rank())) PartsOperation::copy_in(index, slot);
}

void Alltoall::copy_out(std::uint64_t index) {
  const Range own = own_block(index);
  std::byte* part = out_;
  for (int member = 0; member < channel().size(); ++member) {
    if (!descriptor().is_root(member)) continue;
    if (own.size() > 0) {
      std::memcpy(part + own.begin * element_bytes(), for_this_rank(member, index),
                  own.size() * element_bytes());
    }
    part += own_length() * element_bytes();
  }
}

}  // namespace tnt::comm
