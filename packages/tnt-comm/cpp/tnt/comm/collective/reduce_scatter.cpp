#include "tnt/comm/collective/reduce_scatter.hpp"
#include "tnt/comm/base/cache_line.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {

ReduceScatter::ReduceScatter(std::shared_ptr<AbortState> abort_state,
                             std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
                             std::vector<Range> parts, const void* in, void* out)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      parts_(std::move(parts)),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      stride_(size_of(descriptor.dtype)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {
  const std::size_t sub_bytes = channel().slot_bytes() / sources_.size();
  sub_slot_ = sub_bytes / kCacheLineBytes * kCacheLineBytes / stride_;
  std::size_t longest = 0;
  for (const Range& part : parts_) longest = std::max(longest, part.size());
  num_blocks = std::max<std::size_t>(1, (longest + sub_slot_ - 1) / sub_slot_);
}

Range ReduceScatter::block(std::uint64_t index, int member) const {
  const Range& part = parts_[static_cast<std::size_t>(member)];
  return {std::min(part.begin + index * sub_slot_, part.end),
          std::min(part.begin + (index + 1) * sub_slot_, part.end)};
}

void ReduceScatter::copy_in(std::uint64_t index, std::byte* slot) {
  for (int member = 0; member < channel().size(); ++member) {
    const Range range = block(index, member);
    if (range.size() == 0) continue;
    std::memcpy(slot + static_cast<std::size_t>(member) * sub_slot_ * stride_,
                in_ + range.begin * stride_, range.size() * stride_);
  }
}

void ReduceScatter::copy_out(std::uint64_t index) {
  const int self = channel().rank();
  const Range range = block(index, self);
  const std::size_t offset = static_cast<std::size_t>(self) * sub_slot_ * stride_;
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = slot_of(member, index) + offset;
  }
  std::byte* target = out_ + index * sub_slot_ * stride_;
  reducer_.reduce(target, sources_.data(), sources_.size(), range.size());
}

}  // namespace tnt::comm
