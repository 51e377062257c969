#include "tnt/comm/collective/quick_allreduce.hpp"

#include <cstring>
#include <utility>

#include "tnt/comm/collective/select.hpp"

namespace tnt::comm {

QuickAllreduce::QuickAllreduce(std::shared_ptr<StagedStream> stream)
    : stream_(std::move(stream)),
      limit_bytes_(one_shot_limit_bytes(stream_->channel.size())),
      sources_(static_cast<std::size_t>(stream_->channel.size())),
      reducer_(DType::uint8, ReduceOp::sum, sources_.size()) {}

void QuickAllreduce::begin(const void* in, void* out, const Descriptor& descriptor) {
  Channel& channel = stream_->channel;
  const std::uint64_t block = stream_->next_block;
  descriptor_ = descriptor;
  descriptor_.call_index = stream_->num_calls++;
  in_ = static_cast<const std::byte*>(in);
  out_ = static_cast<std::byte*>(out);
  num_arrived_ = 0;
  const std::size_t num_bytes = descriptor.count * size_of(descriptor.dtype);
  if (num_bytes > 0) std::memcpy(channel.slot(block), in_, num_bytes);
  channel.describe(block, {.descriptor = descriptor_, .is_shared = false, .places = {}});
  channel.post_quietly(block);
}

bool QuickAllreduce::try_finish() {
  const Channel& channel = stream_->channel;
  const std::uint64_t block = stream_->next_block;
  for (; num_arrived_ < channel.size(); ++num_arrived_) {
    if (num_arrived_ == channel.rank()) continue;
    if (!channel.has_posted(num_arrived_, block)) return false;
    // Then nothing is quick any more: whoever takes over says what differs.
    if (!descriptor_.matches(channel.descriptor_of(num_arrived_, block))) return false;
  }
  for (int member = 0; member < channel.size(); ++member) {
    sources_[static_cast<std::size_t>(member)] =
        member == channel.rank() ? in_ : channel.slot_of(member, block);
  }
  reducer_.become(descriptor_.dtype, descriptor_.op);
  reducer_.reduce(out_, sources_.data(), sources_.size(), descriptor_.count);
  stream_->next_block = block + 1;
  return true;
}

}  // namespace tnt::comm
