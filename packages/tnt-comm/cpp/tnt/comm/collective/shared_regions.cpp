#include "tnt/comm/collective/shared_regions.hpp"

#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr NotificationId kDropped = 0;

bool have_others_dropped(const Segment& segment) {
  for (int member = 0; member < segment.size(); ++member) {
    if (member != segment.rank() && segment.poll(member, kDropped) == 0) return false;
  }
  return true;
}

}  // namespace

std::uint64_t SharedRegions::add(std::shared_ptr<Segment> segment, std::size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  forget_dropped();
  regions_.emplace(next_, Region{std::move(segment), num_bytes, false});
  num_regions_.store(regions_.size());
  return next_++;
}

void SharedRegions::drop(std::uint64_t region) {
  const std::lock_guard lock(mutex_);
  Region& dropped = regions_.at(region);
  dropped.is_dropped = true;
  dropped.segment->discard_local();
  for (int member = 0; member < dropped.segment->size(); ++member) {
    if (member != dropped.segment->rank()) dropped.segment->notify(member, kDropped, 1);
  }
  forget_dropped();
}

void SharedRegions::forget_dropped() {
  std::erase_if(regions_, [](const auto& entry) {
    const Region& region = entry.second;
    return region.is_dropped && have_others_dropped(*region.segment);
  });
  num_regions_.store(regions_.size());
}

bool SharedRegions::find(const void* data, std::size_t num_bytes, Place& place) const {
  if (num_regions_.load(std::memory_order_relaxed) == 0) return false;
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, region] : regions_) {
    const std::byte* part = region.segment->local();
    const std::less_equal<const std::byte*> is_not_after;  // defined for any two pointers
    if (!is_not_after(part, begin) || !is_not_after(begin + num_bytes, part + region.num_bytes)) {
      continue;
    }
    place = {number, static_cast<std::size_t>(begin - part)};
    return !region.is_dropped;
  }
  return false;
}

std::shared_ptr<Segment> SharedRegions::segment_of(std::uint64_t region) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  if (found != regions_.end()) return found->second.segment;
  throw Error(ErrorKind::comm, text("Shared region ", region, " is not known on this rank."));
}

}  // namespace tnt::comm
