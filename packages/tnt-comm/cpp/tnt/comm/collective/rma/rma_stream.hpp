#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

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

/// The layout for a stream of calls: areas for which the longest block of every split allreduce,
/// an equal share per member of an allgather and so on is about `work_bytes`.
inline RmaLayout stream_layout(const SumTree& tree, std::size_t work_bytes) {
  // Enough blocks under way that a rank has something to send while it waits for
  // the rounds of the others: with eight ranks, six of them for each block.
  constexpr std::size_t kDepth = 4;
  // Every member needs a place of its own in the area.
  const std::size_t least = static_cast<std::size_t>(tree.size()) * kCacheLineBytes;
  RmaLayout layout;
  layout.depth = kDepth;
  layout.areas.work = round_up(std::max(work_bytes, least), kCacheLineBytes);
  layout.areas.landing = layout.areas.work;
  for (const Radices radices : {Radices::one, Radices::primes}) {
    const LevelScheme split{.is_split = true, .radices = radices};
    const std::size_t needed = allreduce_areas(split, tree, layout.areas.work).landing;
    layout.areas.landing = std::max(layout.areas.landing, needed);
  }
  return layout;
}

/// Staging slots in registered memory, of ranks that can only put into each other's. They serve
/// one operation after the other: the calls of a stream, or the steps of a bucket.
///
/// What goes through them is a sequence of *blocks*, numbered from 0 on every rank alike. The 2d
/// slots (d: the depth) take blocks in turn, and the notifications of block s carry s+1. A bucket
/// has two slots with room for all d blocks of a step, each of which has its own part of the slot.
/// A rank begins s only after it has finished s-d.
///
/// In a block of all collectives but a broadcast every rank gets a message that depends on every
/// other rank's having begun it, empty messages included. So when a rank has finished s-d, all have
/// begun s-d, and hence finished s-2d: nobody uses the part of s-2d any more, neither to read what
/// landed there nor to send from it, and block s may fill it, here and there. No SlotRing: networks
/// have counters, and no cache line that a post shares with its data. Threads: one at a time.
struct RmaStream {
  std::shared_ptr<AbortState> abort_state;
  SumTree tree;
  std::shared_ptr<FingerprintCheck> check;  ///< of calls
  std::shared_ptr<Segment> segment;         ///< operations may outlive the object they belong to
  RmaLayout layout;
  std::uint64_t next_block = 0;  ///< the first block of the next operation

  int rank() const { return segment->rank(); }
  int size() const { return segment->size(); }

  /// The slot of a block, as an offset in the segment and in memory.
  std::size_t slot_offset(std::uint64_t block) const {
    return layout.offset +
           block / layout.blocks_per_slot % layout.num_slots() * layout.slot_bytes();
  }
  std::byte* slot(std::uint64_t block) const { return segment->local() + slot_offset(block); }

  /// The memory of all slots.
  HostMemory slots() const {
    return {segment, segment->local() + layout.offset, layout.num_bytes()};
  }

  /// Places inside the slot of one block.
  Areas areas() const { return {0, layout.areas.work}; }
};

}  // namespace tnt::comm
