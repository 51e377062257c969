#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The two slots of a bucket on this rank: which one a step uses, and which
/// one is lent to somebody who reads a result in place. Knows nothing of other
/// ranks.
///
/// A step's slot is chosen when it is *opened*, that is when its first
/// tensor is packed: that of the step before again (it is in the caches), unless
/// it is lent. So the slots of a step may differ between ranks.
///
/// Only one slot is lent at a time, so that the other one can always be
/// packed. The same slot may be lent several times over: a bucket holds
/// several tensors.
///
/// Some tensors of a step may still be waiting for their finish() while others
/// are packed for the next step already, into the same slot. They do not
/// meet: each tensor has its own place, and a step runs only when all its
/// tensors are packed, hence when all have finished the step before.
///
/// Threads: all functions may be called from any thread.
class DoubleBuffer {
 public:
  /// Slots begin at `offset` of the segment's parts, `slot_bytes` each.
  DoubleBuffer(std::shared_ptr<Segment> segment, std::size_t offset, std::size_t slot_bytes)
      : segment_(std::move(segment)), offset_(offset), slot_bytes_(slot_bytes) {}

  static constexpr std::size_t kNumSlots = 2;

  /// Slot 0 or 1 for a step, chosen by the first call. Steps are opened in
  /// order, each one when at least one tensor has finished the step before.
  std::size_t open(std::uint64_t step);

  /// The slot of an opened step; valid until step + 2 is opened.
  std::size_t slot_of(std::uint64_t step) const;

  /// Where a slot begins in every member's part, and in this rank's memory.
  std::size_t offset_of(std::size_t slot) const { return offset_ + slot * slot_bytes_; }
  std::byte* data_of(std::size_t slot) { return segment_->local() + offset_of(slot); }

  /// Lends the slot of a completed step: true, and nobody writes to it until
  /// as many take_back() calls. False if the other slot is lent, or if this
  /// one is being packed again.
  bool try_lend(std::uint64_t step);
  void take_back(std::size_t slot);

 private:
  std::shared_ptr<Segment> segment_;  // borrowers may outlive everything else
  std::size_t offset_;
  std::size_t slot_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t num_opened_ = 0;
  std::array<std::size_t, 2> slot_of_step_{};  // of the last two steps, by parity
  std::array<std::size_t, kNumSlots> num_lent_{};
};

}  // namespace tnt::comm
