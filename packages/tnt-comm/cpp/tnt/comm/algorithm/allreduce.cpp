#include "tnt/comm/algorithm/allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/algorithm/slices.hpp"

namespace tnt::comm {

SlicedAllreduce::SlicedAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                                 std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
                                 const void* in, void* out)
    : WindowedOperation(std::move(health), stall_report_s, std::move(state), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      stride_(size_of(descriptor.dtype)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {
  const std::size_t num_bytes = descriptor.count * stride_;
  const std::size_t window = channel().window_bytes();
  num_steps = std::max<std::size_t>(1, (num_bytes + window - 1) / window);
  has_second_round = true;
}

Range SlicedAllreduce::piece(std::uint64_t index) const {
  const std::size_t length = channel().window_bytes() / stride_;
  const std::size_t begin = index * length;
  return {begin, std::min<std::size_t>(begin + length, descriptor().count)};
}

Range SlicedAllreduce::slice(std::uint64_t index, int member) const {
  return slice_of(piece(index).size(), descriptor().dtype, channel().size(), member);
}

void SlicedAllreduce::copy_in(std::uint64_t index, std::byte* window) {
  const std::byte* source = in_ + piece(index).begin * stride_;
  for (int member = 0; member < channel().size(); ++member) {
    const Range part = slice(index, member);
    if (member == channel().rank() || part.size() == 0) continue;
    std::memcpy(window + part.begin * stride_, source + part.begin * stride_,
                part.size() * stride_);
  }
}

void SlicedAllreduce::reduce(std::uint64_t index) {
  const Range own = slice(index, channel().rank());
  const std::size_t offset = own.begin * stride_;
  for (int member = 0; member < channel().size(); ++member) {
    const bool is_own = member == channel().rank();
    const std::byte* whole = is_own ? in_ + piece(index).begin * stride_ : window_of(member, index);
    sources_[static_cast<std::size_t>(member)] = whole + offset;
  }
  reducer_.reduce(own_window(index) + offset, sources_.data(), sources_.size(), own.size());
}

void SlicedAllreduce::copy_out(std::uint64_t index) {
  std::byte* target = out_ + piece(index).begin * stride_;
  for (int member = 0; member < channel().size(); ++member) {
    const Range part = slice(index, member);
    if (part.size() == 0) continue;
    std::memcpy(target + part.begin * stride_, window_of(member, index) + part.begin * stride_,
                part.size() * stride_);
  }
}

DirectAllreduce::DirectAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                                 std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
                                 const void* in, void* out)
    : WindowedOperation(std::move(health), stall_report_s, std::move(state), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {}

void DirectAllreduce::copy_in(std::uint64_t, std::byte* window) {
  const std::size_t num_bytes = descriptor().count * size_of(descriptor().dtype);
  if (num_bytes > 0) std::memcpy(window, in_, num_bytes);
}

void DirectAllreduce::copy_out(std::uint64_t index) {
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = window_of(member, index);
  }
  reducer_.reduce(out_, sources_.data(), sources_.size(), descriptor().count);
}

}  // namespace tnt::comm
