#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Places one thing after the other in segments: in another one when the last has no notifications
/// left.
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

  /// What the segments need, one at least. Never nothing, which some networks cannot register.
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

/// The segments of one object, which the members of a group create together, in the
/// same order. All functions are collective among those who get the segment, and block.
class SegmentSet {
 public:
  /// `key` is the same on all members and unique in the job, `purpose` is for messages,
  /// `look_around` as in a SegmentRequest.
  SegmentSet(Group& group, std::string key, std::string purpose, std::function<void()> look_around)
      : group_(group),
        key_(std::move(key)),
        purpose_(std::move(purpose)),
        look_around_(std::move(look_around)) {}

  std::shared_ptr<Segment> create(const MemoryNeeds& needs, Senders senders = Senders::all) {
    return create_of(group_.ranks(), "", needs, senders);
  }

  /// With two levels, memory among the members on this host, which can read it,
  /// or among those with this rank's place on all hosts.
  std::shared_ptr<Segment> create_on_host(const MemoryNeeds& needs) {
    const int host = group_.hosts().host_of(group_.rank());
    return create_of(ranks_with(&HostLayout::host_of), text("-host-", host), needs, Senders::all);
  }
  std::shared_ptr<Segment> create_between_hosts(const MemoryNeeds& needs,
                                                Senders senders = Senders::all) {
    const int index = group_.hosts().local_index_of(group_.rank());
    return create_of(ranks_with(&HostLayout::local_index_of), text("-place-", index), needs,
                     senders);
  }

 private:
  // Where this rank's host, or place, is as well.
  std::vector<int> ranks_with(int (HostLayout::*place_of)(int) const) const {
    const HostLayout& hosts = group_.hosts();
    std::vector<int> ranks;
    for (int member = 0; member < group_.size(); ++member) {
      const bool is_there = (hosts.*place_of)(member) == (hosts.*place_of)(group_.rank());
      if (is_there) ranks.push_back(at(group_.ranks(), member));
    }
    return ranks;
  }

  std::shared_ptr<Segment> create_of(std::vector<int> ranks, const std::string& suffix,
                                     const MemoryNeeds& needs, Senders senders) {
    return group_.runtime().transport().create_segment(
        {.key = text(key_, "-", num_segments_++, suffix),
         .members = std::move(ranks),
         .num_bytes = needs.num_bytes,
         .num_notifications = needs.num_notifications,
         .purpose = purpose_,
         .senders = senders,
         .look_around = look_around_},
        Deadline(group_.timeout_s()));
  }

  Group& group_;
  std::string key_;
  std::string purpose_;
  std::function<void()> look_around_;
  int num_segments_ = 0;
};

/// Creates an object on the group: collective, blocking. All members have it afterwards, or none.
///
/// `title` says what is created, `details` are lines that must be equal. If
/// any differs, all members throw the same mismatch error, which names the
/// first difference with both ranks' values, and the group is broken.
///
/// `create` makes this rank's part, with what memory it needs of `segments`. If it
/// throws on a rank, the others throw an error that names the rank and its reason, and
/// the group can still be used. It is broken, though, if the rank cannot wait for the
/// others any more: one is lost, the time is over, or the wait was interrupted.
void create_together(Group& group, const std::string& title, const std::string& details,
                     const std::function<void(SegmentSet& segments)>& create);

/// Memory for an array that all members of a group can reach, so that
/// allreduces of it need no copies. The members may destroy theirs in any
/// order and at any time when no collective uses it, also after the group.
///
/// Where the transport cannot reach other ranks' memory, it is plain memory.
class TNT_COMM_EXPORT SharedArray {
 public:
  /// Collective among the group, blocking. Mismatch error on all members if their sizes differ.
  SharedArray(Group& group, std::size_t num_bytes);
  ~SharedArray();
  SharedArray(SharedArray&&) = delete;

  /// 64-byte aligned.
  std::byte* data() const { return segment_->local(); }

 private:
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<SharedRegions> regions_;  // null for plain memory
  std::uint64_t block_ = 0;
};

}  // namespace tnt::comm
