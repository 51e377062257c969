#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The two slots of a bucket on this rank: which one a step uses, and which one is lent to somebody
/// who reads a result in place. Knows nothing of other ranks.
///
/// A step's slot is chosen when it is *opened*, that is when its first
/// tensor is packed: that of the step before again (it is in the caches), unless
/// it is lent. So the slots of a step may differ between ranks.
///
/// Only one slot is lent at a time, so that the other one can always be packed. The same slot may
/// be lent several times over: a bucket holds several tensors.
///
/// Some tensors of a step may still be waiting for their finish() while others
/// are packed for the next step already, into the same slot. They do not
/// meet: each tensor has its own place, and a step runs only when all its
/// tensors are packed, hence when all have finished the step before. Thread-safe.
class DoubleBuffer {
 public:
  /// Slots begin at `offset` of the segment's parts, `slot_bytes` each.
  DoubleBuffer(std::shared_ptr<Segment> segment, std::size_t offset, std::size_t slot_bytes)
      : segment_(std::move(segment)), offset_(offset), slot_bytes_(slot_bytes) {}

  static constexpr std::size_t kNumSlots = 2;

  /// Slot 0 or 1 for a step, chosen by the first call. Steps are opened in
  /// order, each one when at least one tensor has finished the step before.
  std::size_t open(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    std::size_t& slot = slot_of_step_[step % 2];
    if (num_opened_ == step) {
      const std::size_t before = slot_of_step_[(step + 1) % 2];
      slot = num_lent_[before] > 0 ? 1 - before : before;
      ++num_opened_;
    }
    return slot;
  }

  /// The slot of an opened step; valid until step + 2 is opened.
  std::size_t slot_of(std::uint64_t step) const {
    const std::lock_guard lock(mutex_);
    return slot_of_step_[step % 2];
  }

  /// Where a slot begins in every member's part, and in this rank's memory.
  std::size_t offset_of(std::size_t slot) const { return offset_ + slot * slot_bytes_; }
  std::byte* data_of(std::size_t slot) { return segment_->local() + offset_of(slot); }

  /// Where the steps of a bucket lie of which nothing is lent: always in the first slot.
  HostMemory unlent_memory() const { return {segment_, segment_->local() + offset_, slot_bytes_}; }

  /// Lends the slot of a completed step: true, and nobody writes to it until as many take_back()
  /// calls. False if the other slot is lent, or if this one is being packed again.
  bool try_lend(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    const std::size_t slot = slot_of_step_[step % 2];
    const bool is_packed_again = num_opened_ > step + 1 && slot_of_step_[(step + 1) % 2] == slot;
    if (is_packed_again || num_lent_[1 - slot] > 0) return false;
    ++num_lent_[slot];
    return true;
  }
  void take_back(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    --num_lent_[slot];
  }

 private:
  std::shared_ptr<Segment> segment_;  // borrowers may outlive everything else
  std::size_t offset_;
  std::size_t slot_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t num_opened_ = 0;
  std::array<std::size_t, 2> slot_of_step_{};  // of the last two steps, by parity
  std::array<std::size_t, kNumSlots> num_lent_{};
};

/// A tensor that is summed where it lies, without being packed.
struct InPlaceTensor {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;               ///< where its sum goes; may be `in`
  double scale = 1;                       ///< what is summed is scale * in
  std::shared_ptr<void> owner = nullptr;  ///< keeps both where they are
};

/// A bucket in the memory of the host, where its tensors are packed, and its sum is read or lent.
/// The slot of a lent result is left alone until it is given back. Some buckets let large tensors
/// stay where they are: sum_in_place() instead of packing.
class HostBucket : public BucketOperation {
 public:
  using BucketOperation::BucketOperation;

  /// Where the bucket of a step is packed. To be called for every tensor.
  virtual std::byte* input(std::uint64_t step) = 0;

  /// Where input() and result() lie in all steps, as long as nothing is lent; none if they move.
  virtual HostMemory memory() const { return {}; }

  /// Whether the `index`-th of the bucket's large tensors can be summed in place.
  virtual bool may_be_in_place(std::size_t /*index*/) const { return false; }

  /// For this step, the tensor is not in the bucket but there. It is until
  /// release(), which must not come before the step is complete.
  virtual void sum_in_place(std::size_t /*index*/, InPlaceTensor /*tensor*/) {}
  virtual void release(std::size_t /*index*/) {}

  /// The completed step's whole bucket, to be read.
  virtual const std::byte* result(std::uint64_t step) const = 0;

  /// Lends the completed step's slot, or null if that is not possible now.
  /// Nobody writes to it until the lent slots have taken it back.
  std::shared_ptr<DoubleBuffer> try_lend(std::uint64_t step, std::size_t& slot) const {
    std::shared_ptr<DoubleBuffer> slots = lendable();
    if (!slots || !slots->try_lend(step)) return nullptr;
    slot = slots->slot_of(step);
    return slots;
  }

 protected:
  /// The slots that hold the results, if these can be lent.
  virtual std::shared_ptr<DoubleBuffer> lendable() const { return nullptr; }
};

}  // namespace tnt::comm
