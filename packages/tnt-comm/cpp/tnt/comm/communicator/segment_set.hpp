#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Places one thing after the other in segments: in another one when the last
/// has no notifications left.
class SegmentPlan {
 public:
  struct Place {
    std::size_t segment = 0;
    std::size_t offset = 0;
    NotificationId notification = 0;
  };

  explicit SegmentPlan(std::size_t most_notifications = std::numeric_limits<std::size_t>::max())
      : most_notifications_(most_notifications) {}

  Place add(const MemoryNeeds& needs) {
    const std::size_t num_used = totals_.back().num_notifications;
    const bool is_full = num_used > 0 && num_used + needs.num_notifications > most_notifications_;
    if (is_full) totals_.emplace_back();
    MemoryNeeds& total = totals_.back();
    const Place place{totals_.size() - 1, total.num_bytes, total.num_notifications};
    total.num_bytes += round_up(needs.num_bytes, kCacheLineBytes);
    total.num_notifications += needs.num_notifications;
    return place;
  }

  /// What the segments need, one at least. Never nothing, since that is more than
  /// some networks can register.
  std::vector<MemoryNeeds> totals() const {
    std::vector<MemoryNeeds> totals = totals_;
    for (MemoryNeeds& total : totals) {
      total.num_bytes = std::max<std::size_t>(total.num_bytes, 1);
      total.num_notifications = std::max<std::size_t>(total.num_notifications, 1);
    }
    return totals;
  }

 private:
  std::size_t most_notifications_;
  std::vector<MemoryNeeds> totals_{1};
};

class Group;

/// The segments of one object, which the members of a group create together, in the
/// same order. All functions are collective among those who get the segment, and block.
class SegmentSet {
 public:
  /// `key` is the same on all members and unique in the job, `purpose` is for messages,
  /// `look_around` as in a SegmentRequest.
  SegmentSet(Group& group, std::string key, std::string purpose, std::function<void()> look_around);

  /// Memory of all members.
  std::shared_ptr<Segment> create(const MemoryNeeds& needs, Senders senders = Senders::all);

  /// With two levels, memory among the members on this host, which can read it,
  /// or among those with this rank's place on all hosts.
  std::shared_ptr<Segment> create_on_host(const MemoryNeeds& needs);
  std::shared_ptr<Segment> create_between_hosts(const MemoryNeeds& needs,
                                                Senders senders = Senders::all);

 private:
  std::shared_ptr<Segment> create_of(std::vector<int> ranks, const std::string& suffix,
                                     const MemoryNeeds& needs, Senders senders);

  Group& group_;
  std::string key_;
  std::string purpose_;
  std::function<void()> look_around_;
  int num_segments_ = 0;
};

}  // namespace tnt::comm
