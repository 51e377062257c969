#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Memory that all members of a group can read and write, in regions that they
/// created together: region i is the i-th of the group on every member. Finds
/// out whether an array lies in one of them, and where the others' arrays are.
///
/// A member *drops* a region when it does not use its own part any more, in any
/// order. Its memory is given back at once; the addresses stay valid on all
/// members until everybody has dropped the region, since the others may still
/// use theirs.
///
/// Threads: all functions may be called from any thread.
class SharedRegions {
 public:
  /// Notifications that the segment of a region must have.
  static constexpr std::size_t kNumNotifications = 1;

  /// The next region.
  std::uint64_t add(std::shared_ptr<Segment> segment, std::size_t num_bytes);

  /// Never waits; for instance while garbage is collected.
  void drop(std::uint64_t region);

  struct Place {
    std::uint64_t region;
    std::size_t offset;
  };

  /// Where the bytes lie in this rank's part of a region; false if they do not.
  bool find(const void* data, std::size_t num_bytes, Place& place) const;

  /// The segment that holds a region of which some member still uses its part.
  std::shared_ptr<Segment> segment_of(std::uint64_t region) const;

 private:
  struct Region {
    std::shared_ptr<Segment> segment;
    std::size_t num_bytes;
    bool is_dropped;
  };

  void forget_dropped();

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Region> regions_;
  std::uint64_t next_ = 0;
  std::atomic<std::size_t> num_regions_{0};  // so that most calls need no lock
};

}  // namespace tnt::comm
