#include "tnt/comm/collective/rma/host_staging.hpp"

#include <utility>

namespace tnt::comm {

MemoryNeeds HostStaging::memory_needs(std::size_t slot_bytes, std::size_t depth) {
  constexpr std::size_t kCounters = 2;
  return {2 * depth * slot_bytes, kCounters};
}

HostStaging::HostStaging(std::shared_ptr<Segment> segment, std::size_t slot_bytes,
                         std::size_t depth)
    : segment_(std::move(segment)),
      announcements_(segment_, 0),
      slot_bytes_(slot_bytes),
      num_slots_(2 * depth) {}

const std::byte* HostStaging::slot_of(int member, std::uint64_t block) const {
  const std::byte* part = member == rank() ? segment_->local() : segment_->peer(member);
  return part + offset(block);
}

void HostStaging::spread(std::uint64_t block, std::size_t begin, std::size_t num_bytes) {
  const std::size_t at = offset(block) + begin;
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) segment_->put(member, at, at, num_bytes);
  }
}

}  // namespace tnt::comm
