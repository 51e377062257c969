#include "tnt/comm/collective/parts_operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"

namespace tnt::comm {

PartsOperation::PartsOperation(std::shared_ptr<AbortState> abort_state,
                               std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
                               std::vector<Range> parts, const void* in)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      parts_(std::move(parts)),
      in_(static_cast<const std::byte*>(in)),
      element_bytes_(size_of(descriptor.dtype)) {
  const std::size_t sub_bytes = channel().slot_bytes() / parts_.size();
  sub_slot_ = sub_bytes / kCacheLineBytes * kCacheLineBytes / element_bytes_;
  std::size_t longest = 0;
  for (const Range& part : parts_) longest = std::max(longest, part.size());
  num_blocks = std::max<std::size_t>(1, (longest + sub_slot_ - 1) / sub_slot_);
}

Range PartsOperation::block(std::uint64_t index, std::size_t member) const {
  const Range& part = parts_[member];
  return {std::min(part.begin + index * sub_slot_, part.end),
          std::min(part.begin + (index + 1) * sub_slot_, part.end)};
}

Range PartsOperation::own_block(std::uint64_t index) const {
  const Range range = block(index, own_index());
  const std::size_t begin = parts_[own_index()].begin;
  return {range.begin - begin, range.end - begin};
}

const std::byte* PartsOperation::for_this_rank(int member, std::uint64_t index) const {
  return slot_of(member, index) + own_index() * sub_slot_ * element_bytes_;
}

void PartsOperation::copy_in(std::uint64_t index, std::byte* slot) {
  for (std::size_t member = 0; member < parts_.size(); ++member) {
    const Range range = block(index, member);
    if (range.size() == 0) continue;
    std::memcpy(slot + member * sub_slot_ * element_bytes_, in_ + range.begin * element_bytes_,
                range.size() * element_bytes_);
  }
}

}  // namespace tnt::comm
