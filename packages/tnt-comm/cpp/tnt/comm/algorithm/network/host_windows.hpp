#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/algorithm/announcements.hpp"
#include "tnt/comm/algorithm/collectives.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// The windows of the ranks of one host, which read each other's: what an
/// allreduce over two levels does before and after its exchange.
///
/// In a step every rank fills its window and *posts*, reduces its slice out of
/// all windows when all have posted, writes the result of its slice into the
/// same places (see Channel for why) and *publishes*. When all have published,
/// it has the whole result in its own window. A rank posts s only when it has
/// finished s-d (d: the depth), so Channel's argument holds for its 2d windows.
class HostWindows {
 public:
  static MemoryNeeds memory_needs(std::size_t window_bytes, std::size_t depth);

  /// The memory begins at the segment's begin.
  HostWindows(std::shared_ptr<Segment> segment, std::size_t window_bytes, std::size_t depth);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  std::size_t window_bytes() const { return window_bytes_; }

  std::byte* own_window(std::uint64_t step) const { return segment_->local() + offset(step); }
  const std::byte* window_of(int member, std::uint64_t step) const;

  /// Copies bytes of this rank's window into all others'.
  void spread(std::uint64_t step, std::size_t begin, std::size_t num_bytes);

  void post(std::uint64_t step) { announcements_.announce(0, step + 1); }
  void publish(std::uint64_t step) { announcements_.announce(1, step + 1); }
  bool have_all_posted(std::uint64_t step) const { return announcements_.have_all(0, step + 1); }
  bool have_all_published(std::uint64_t step) const { return announcements_.have_all(1, step + 1); }
  std::vector<int> missing_posts(std::uint64_t step) const {
    return announcements_.missing(0, step + 1);
  }
  std::vector<int> missing_publications(std::uint64_t step) const {
    return announcements_.missing(1, step + 1);
  }

 private:
  std::size_t offset(std::uint64_t step) const { return step % num_windows_ * window_bytes_; }

  std::shared_ptr<Segment> segment_;
  Announcements announcements_;
  std::size_t window_bytes_;
  std::size_t num_windows_;
};

}  // namespace tnt::comm
