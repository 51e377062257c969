#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Counters by which the members of a segment tell each other how far they
/// have come: a run of the segment's notifications.
///
/// Threads: announce() of one counter from one thread at a time; the rest from
/// any thread.
class Announcements {
 public:
  Announcements(std::shared_ptr<Segment> segment, NotificationId first)
      : segment_(std::move(segment)), first_(first) {}

  /// Tells all other members that this rank's counter `which` is `value` now.
  void announce(std::size_t which, std::uint64_t value);

  /// Whether all other members have announced `value` or more.
  bool have_all(std::size_t which, std::uint64_t value) const;

  /// The newest value that another member has announced.
  std::uint64_t newest_of(int member, std::size_t which) const {
    return segment_->poll(member, first_ + which);
  }

  /// Members that have announced less than `value`, this rank aside.
  std::vector<int> missing(std::size_t which, std::uint64_t value) const;

 private:
  std::shared_ptr<Segment> segment_;
  NotificationId first_;
};

}  // namespace tnt::comm
