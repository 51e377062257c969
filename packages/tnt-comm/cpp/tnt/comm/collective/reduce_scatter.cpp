#include "tnt/comm/collective/reduce_scatter.hpp"

#include <utility>

namespace tnt::comm {

ReduceScatter::ReduceScatter(std::shared_ptr<AbortState> abort_state,
                             std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
                             std::vector<Range> parts, const void* in, void* out)
    : PartsOperation(std::move(abort_state), std::move(state), descriptor, std::move(parts), in),
      out_(static_cast<std::byte*>(out)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {}

void ReduceScatter::copy_out(std::uint64_t index) {
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = for_this_rank(member, index);
  }
  const Range own = own_block(index);
  reducer_.reduce(out_ + own.begin * element_bytes(), sources_.data(), sources_.size(), own.size());
}

}  // namespace tnt::comm
