#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Memory that all members of a group can read and write, in blocks that they
/// created together: block i is the i-th of the group on every member. Finds
/// out whether an array lies in one of them, and where the others' arrays are.
///
/// A member *drops* a block when it does not use its own part any more, in any
/// order. Its memory is given back at once; the addresses stay valid on all
/// members until everybody has dropped the block, since the others may still
/// use theirs.
///
/// Threads: all functions may be called from any thread.
class SharedBlocks {
 public:
  /// Notifications that the segment of a block must have.
  static constexpr std::size_t kNumNotifications = 1;

  /// The next block.
  std::uint64_t add(std::shared_ptr<Segment> segment, std::size_t num_bytes);

  /// Never waits; for instance while garbage is collected.
  void drop(std::uint64_t block);

  struct Place {
    std::uint64_t block;
    std::size_t offset;
  };

  /// Where the bytes lie in this rank's part of a block; false if they do not.
  bool find(const void* data, std::size_t num_bytes, Place& place) const;

  /// The segment that holds a block of which some member still uses its part.
  std::shared_ptr<Segment> segment_of(std::uint64_t block) const;

 private:
  struct Block {
    std::shared_ptr<Segment> segment;
    std::size_t num_bytes;
    bool is_dropped;
  };

  void forget_dropped();

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::uint64_t next_ = 0;
  std::atomic<std::size_t> num_blocks_{0};  // so that most calls need no lock
};

}  // namespace tnt::comm
