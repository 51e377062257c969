#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/collective/rma/schedule.hpp"

namespace tnt::comm {

/// Size and place of staging slots inside a segment.
struct RmaLayout {
  std::size_t offset = 0;           ///< of the slots' bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first one
  AreaSizes areas;                  ///< of a slot; multiples of 64
  std::size_t depth = 1;            ///< blocks that may be under way at once
  std::size_t blocks_per_slot = 1;  ///< `depth`, where what is packed in a slot is cut into blocks

  std::size_t slot_bytes() const { return areas.work + areas.landing; }
  std::size_t num_slots() const { return 2 * depth / blocks_per_slot; }
  std::size_t num_bytes() const { return num_slots() * slot_bytes(); }
};

/// Staging slots in registered memory, of ranks that can only put into each
/// other's: of one stream of calls, or of one bucket.
///
/// What goes through them is a sequence of *blocks*, numbered from 0 on every rank
/// alike. The 2d slots (d: the depth) take blocks in turn, and the notifications of
/// block s carry s+1. A bucket has two slots with room for all d blocks of a
/// step, each of which has its own part of the slot. A rank begins s only after it has
/// finished s-d.
///
/// In a block of all collectives but a broadcast every rank gets a message that
/// depends on every other rank's having begun it, empty messages
/// included. So when a rank has finished s-d, all have begun s-d, and hence
/// finished s-2d: nobody uses the place of s-2d any more, neither to read what
/// landed there nor to send from it, and block s may fill it, here and there.
/// No Channel: networks have counters, and no cache line that a post shares with its data.
/// Threads: one at a time.
class RmaStaging {
 public:
  RmaStaging(std::shared_ptr<Segment> segment, const RmaLayout& layout)
      : segment_(std::move(segment)), layout_(layout) {}

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  Segment& segment() const { return *segment_; }
  const RmaLayout& layout() const { return layout_; }

  /// The slot of a block, as an offset in the segment and in memory.
  std::size_t slot_offset(std::uint64_t block) const {
    return layout_.offset +
           block / layout_.blocks_per_slot % layout_.num_slots() * layout_.slot_bytes();
  }
  std::byte* slot(std::uint64_t block) const { return segment_->local() + slot_offset(block); }

  /// Places inside the slot of one block.
  Areas areas() const { return {0, layout_.areas.work}; }

 private:
  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  RmaLayout layout_;
};

/// The layout for a stream of calls: areas for which the longest block of every split allreduce,
/// an equal share per member of an allgather and so on is about `work_bytes`.
RmaLayout stream_layout(int num_members, std::size_t work_bytes);

}  // namespace tnt::comm
