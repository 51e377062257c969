#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/collective/announcements.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// The slots of the ranks of one host, which read each other's: what an
/// allreduce over two levels does before and after its exchange.
///
/// In a block every rank fills its slot and *posts*, reduces its chunk out of
/// all slots when all have posted, writes the result of its chunk into the
/// same places (see Channel for why) and *publishes*. When all have published,
/// it has the whole result in its own slot. A rank posts s only when it has
/// finished s-d (d: the depth), so Channel's argument holds for its 2d slots.
class HostStaging {
 public:
  static MemoryNeeds memory_needs(std::size_t slot_bytes, std::size_t depth);

  /// The memory begins at the segment's begin.
  HostStaging(std::shared_ptr<Segment> segment, std::size_t slot_bytes, std::size_t depth);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  std::size_t slot_bytes() const { return slot_bytes_; }

  std::byte* own_slot(std::uint64_t block) const { return segment_->local() + offset(block); }
  const std::byte* slot_of(int member, std::uint64_t block) const;

  /// Copies bytes of this rank's slot into all others'.
  void spread(std::uint64_t block, std::size_t begin, std::size_t num_bytes);

  void post(std::uint64_t block) { announcements_.announce(0, block + 1); }
  void publish(std::uint64_t block) { announcements_.announce(1, block + 1); }
  bool have_all_posted(std::uint64_t block) const { return announcements_.have_all(0, block + 1); }
  bool have_all_published(std::uint64_t block) const {
    return announcements_.have_all(1, block + 1);
  }
  std::vector<int> missing_posts(std::uint64_t block) const {
    return announcements_.missing(0, block + 1);
  }
  std::vector<int> missing_publications(std::uint64_t block) const {
    return announcements_.missing(1, block + 1);
  }

 private:
  std::size_t offset(std::uint64_t block) const { return block % num_slots_ * slot_bytes_; }

  std::shared_ptr<Segment> segment_;
  Announcements announcements_;
  std::size_t slot_bytes_;
  std::size_t num_slots_;
};

}  // namespace tnt::comm
