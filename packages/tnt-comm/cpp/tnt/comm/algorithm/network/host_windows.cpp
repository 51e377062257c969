#include "tnt/comm/algorithm/network/host_windows.hpp"

#include <utility>

namespace tnt::comm {

MemoryNeeds HostWindows::memory_needs(std::size_t window_bytes, std::size_t depth) {
  constexpr std::size_t kCounters = 2;
  return {2 * depth * window_bytes, kCounters};
}

HostWindows::HostWindows(std::shared_ptr<Segment> segment, std::size_t window_bytes,
                         std::size_t depth)
    : segment_(std::move(segment)),
      announcements_(segment_, 0),
      window_bytes_(window_bytes),
      num_windows_(2 * depth) {}

const std::byte* HostWindows::window_of(int member, std::uint64_t step) const {
  const std::byte* part = member == rank() ? segment_->local() : segment_->peer(member);
  return part + offset(step);
}

void HostWindows::spread(std::uint64_t step, std::size_t begin, std::size_t num_bytes) {
  const std::size_t at = offset(step) + begin;
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) segment_->put(member, at, at, num_bytes);
  }
}

}  // namespace tnt::comm
