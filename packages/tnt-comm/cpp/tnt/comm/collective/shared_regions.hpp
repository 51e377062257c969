#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Where an array lies in the regions of a group.
struct RegionOffset {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;  ///< bytes
};

/// Memory that all members of a group can read and write, in regions that they
/// created together: region i is the i-th of the group on every member. Finds
/// out whether an array lies in one of them, and where the others' arrays are.
///
/// A member *drops* a region when it does not use its own part any more, in any order. Its memory
/// is given back at once; the addresses stay valid on all members until everybody has dropped the
/// region, since the others may still use theirs. Thread-safe.
class SharedRegions {
 public:
  /// Notifications that the segment of a region must have.
  static constexpr std::size_t kNumNotifications = 1;

  std::uint64_t add(std::shared_ptr<Segment> segment, std::size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    forget_dropped();
    regions_.emplace(next_, Region{std::move(segment), num_bytes, false});
    num_regions_.store(regions_.size());
    return next_++;
  }

  /// Never waits; for instance while garbage is collected.
  void drop(std::uint64_t region) {
    const std::lock_guard lock(mutex_);
    Region& dropped = regions_.at(region);
    dropped.is_dropped = true;
    dropped.segment->discard_local();
    for (int member = 0; member < dropped.segment->size(); ++member) {
      if (member != dropped.segment->rank()) dropped.segment->notify(member, kDropped, 1);
    }
    forget_dropped();
  }

  /// Where the bytes lie in this rank's part of a region, if they do.
  std::optional<RegionOffset> find(const void* data, std::size_t num_bytes) const {
    if (num_regions_.load(std::memory_order_relaxed) == 0) return {};
    const auto* begin = static_cast<const std::byte*>(data);
    const std::lock_guard lock(mutex_);
    for (const auto& [number, region] : regions_) {
      const std::byte* part = region.segment->local();
      const std::less_equal<const std::byte*> is_not_after;  // defined for any two pointers
      if (!is_not_after(part, begin)) continue;
      if (!is_not_after(begin + num_bytes, part + region.num_bytes)) continue;
      if (region.is_dropped) return {};
      return RegionOffset{number, static_cast<std::uint64_t>(begin - part)};
    }
    return {};
  }

  /// The segment that holds a region of which some member still uses its part.
  std::shared_ptr<Segment> segment_of(std::uint64_t region) const {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(region);
    if (found != regions_.end()) return found->second.segment;
    throw Error(ErrorKind::comm, "Shared region ", region, " is not known on this rank.");
  }

 private:
  static constexpr NotificationId kDropped = 0;

  struct Region {
    std::shared_ptr<Segment> segment;
    std::size_t num_bytes;
    bool is_dropped;
  };

  static bool have_others_dropped(const Segment& segment) {
    for (int member = 0; member < segment.size(); ++member) {
      if (member != segment.rank() && segment.poll(member, kDropped) == 0) return false;
    }
    return true;
  }

  void forget_dropped() {
    std::erase_if(regions_, [](const auto& entry) {
      return entry.second.is_dropped && have_others_dropped(*entry.second.segment);
    });
    num_regions_.store(regions_.size());
  }

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Region> regions_;
  std::uint64_t next_ = 0;
  std::atomic<std::size_t> num_regions_{0};  // so that most calls need no lock
};

}  // namespace tnt::comm
