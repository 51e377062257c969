#include "tnt/comm/algorithm/reduce_scatter.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {

ReduceScatter::ReduceScatter(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
                             const Descriptor& descriptor, std::vector<Range> parts, const void* in,
                             void* out)
    : WindowedOperation(std::move(health), std::move(state), descriptor),
      parts_(std::move(parts)),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      stride_(size_of(descriptor.dtype)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {
  constexpr std::size_t kCacheLine = 64;
  const std::size_t sub_bytes = channel().window_bytes() / sources_.size();
  sub_window_ = sub_bytes / kCacheLine * kCacheLine / stride_;
  std::size_t longest = 0;
  for (const Range& part : parts_) longest = std::max(longest, part.size());
  num_steps = std::max<std::size_t>(1, (longest + sub_window_ - 1) / sub_window_);
}

Range ReduceScatter::piece(std::uint64_t index, int member) const {
  const Range& part = parts_[static_cast<std::size_t>(member)];
  return {std::min(part.begin + index * sub_window_, part.end),
          std::min(part.begin + (index + 1) * sub_window_, part.end)};
}

void ReduceScatter::copy_in(std::uint64_t index, std::byte* window) {
  for (int member = 0; member < channel().size(); ++member) {
    const Range range = piece(index, member);
    if (range.size() == 0) continue;
    std::memcpy(window + static_cast<std::size_t>(member) * sub_window_ * stride_,
                in_ + range.begin * stride_, range.size() * stride_);
  }
}

void ReduceScatter::copy_out(std::uint64_t index) {
  const int self = channel().rank();
  const Range range = piece(index, self);
  const std::size_t offset = static_cast<std::size_t>(self) * sub_window_ * stride_;
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = window_of(member, index) + offset;
  }
  std::byte* target = out_ + index * sub_window_ * stride_;
  reducer_.reduce(target, sources_.data(), sources_.size(), range.size());
}

}  // namespace tnt::comm
