#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a network channel inside a segment.
struct RmaLayout {
  std::size_t offset = 0;           ///< of the channel's bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first of num_notifications()
  AreaSizes areas;                  ///< of a slot; multiples of 64
  std::size_t depth = 1;            ///< blocks that may be under way at once

  std::size_t slot_bytes() const { return areas.work + areas.landing; }
  std::size_t num_slots() const { return 2 * depth; }
  std::size_t num_bytes() const { return num_slots() * slot_bytes(); }
  static std::size_t num_notifications(int num_members);
};

/// The slots of one independent stream of collectives among ranks that can
/// only put into each other's memory.
///
/// A stream is a sequence of *blocks*, numbered from 0 on every rank alike. Block
/// s uses slot s mod 2d (d: the depth) of every rank, and its notifications
/// carry s+1. A rank begins s only after it has finished s-d.
///
/// In a block of all collectives but a broadcast every rank gets a message that
/// depends on every other rank's having begun it, empty messages
/// included. So when a rank has finished s-d, all have begun s-d, and hence
/// finished s-2d: nobody uses the slot of s-2d any more, neither to read what
/// landed there nor to send from it, and block s may fill it, here and there.
///
/// Threads: one at a time.
class RmaChannel {
 public:
  RmaChannel(std::shared_ptr<Segment> segment, const RmaLayout& layout);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const RmaLayout& layout() const { return layout_; }

  /// The slot of a block, as an offset in the segment and in memory.
  std::size_t slot_offset(std::uint64_t block) const {
    return layout_.offset + block % layout_.num_slots() * layout_.slot_bytes();
  }
  std::byte* slot(std::uint64_t block) const { return segment_->local() + slot_offset(block); }

  /// Places inside a slot.
  Areas areas() const { return {0, layout_.areas.work}; }

  /// What the notifications of a block carry.
  static std::uint64_t value_of(std::uint64_t block) { return block + 1; }

 private:
  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  RmaLayout layout_;
};

/// Areas for which the longest block of every split allreduce, an equal share
/// per member of an allgather and so on is about `work_bytes`.
AreaSizes slot_areas(int num_members, std::size_t work_bytes);

}  // namespace tnt::comm
