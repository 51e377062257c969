#include "tnt/comm/algorithm/channel.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

// One cache line per sender and step, so that senders do not disturb each other.
constexpr std::size_t kDescriptorBytes = 64;
static_assert(sizeof(Descriptor) <= kDescriptorBytes);
static_assert(std::is_trivially_copyable_v<Descriptor>);

std::size_t descriptor_table_bytes(std::size_t num_members, std::size_t num_windows) {
  return num_members * num_windows * kDescriptorBytes;
}

}  // namespace

std::size_t ChannelLayout::num_bytes(std::size_t num_members) const {
  return descriptor_table_bytes(num_members, num_windows()) + num_windows() * window_bytes;
}

Channel::Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout)
    : segment_(std::move(segment)),
      layout_(layout),
      announcements_(segment_, layout.notification) {}

const std::byte* Channel::window_of(int member, std::uint64_t step) const {
  const std::byte* part = member == rank() ? segment_->local() : segment_->peer(member);
  return part + window_offset(step);
}

void Channel::describe(std::uint64_t step, const Descriptor& descriptor) {
  const std::size_t offset = descriptor_offset(rank(), step);
  std::memcpy(segment_->local() + offset, &descriptor, sizeof descriptor);
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) segment_->put(member, offset, offset, sizeof descriptor);
  }
}

Descriptor Channel::descriptor_of(int member, std::uint64_t step) const {
  Descriptor result;
  std::memcpy(&result, segment_->local() + descriptor_offset(member, step), sizeof result);
  return result;
}

std::size_t Channel::descriptor_offset(int member, std::uint64_t step) const {
  const std::size_t slot = step % layout_.num_windows();
  const auto row = static_cast<std::size_t>(member);
  return layout_.offset + (row * layout_.num_windows() + slot) * kDescriptorBytes;
}

std::size_t Channel::window_offset(std::uint64_t step) const {
  const auto num_members = static_cast<std::size_t>(size());
  return layout_.offset + descriptor_table_bytes(num_members, layout_.num_windows()) +
         (step % layout_.num_windows()) * layout_.window_bytes;
}

}  // namespace tnt::comm
