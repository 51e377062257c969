#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// The two windows of a bucket on this rank: which one a step uses, and which
/// one is lent to somebody who reads a result in place. Knows nothing of other
/// ranks.
///
/// A step's window is chosen when it is *opened*, that is when its first
/// tensor is packed. With `Order::reuse` the window of the step before is taken
/// again (it is in the caches), unless it is lent; so the windows of a step may
/// differ between ranks. With `Order::alternate` steps take turns, and nothing
/// can be lent.
///
/// Only one window is lent at a time, so that the other one can always be
/// packed. The same window may be lent several times over: a bucket holds
/// several tensors.
///
/// Some tensors of a step may still be waiting for their finish() while others
/// are packed for the next step already, into the same window. They do not
/// meet: each tensor has its own place, and a step runs only when all its
/// tensors are packed, hence when all have finished the step before.
///
/// Threads: all functions may be called from any thread.
class WindowPair : public std::enable_shared_from_this<WindowPair> {
 public:
  enum class Order { reuse, alternate };

  /// Windows begin at `offset` of the segment's parts, `window_bytes` each.
  WindowPair(std::shared_ptr<Segment> segment, std::size_t offset, std::size_t window_bytes,
             Order order);

  static constexpr std::size_t kNumWindows = 2;

  /// Window 0 or 1 for a step, chosen by the first call. Steps are opened in
  /// order, each one when at least one tensor has finished the step before.
  std::size_t open(std::uint64_t step);

  /// The window of an opened step; valid until step + 2 is opened.
  std::size_t window_of(std::uint64_t step) const;

  /// Where a window begins in every member's part, and in this rank's memory.
  std::size_t offset_of(std::size_t window) const { return offset_ + window * window_bytes_; }
  std::byte* data_of(std::size_t window) { return segment_->local() + offset_of(window); }

  /// Lends the window of a completed step: true, and nobody writes to it until
  /// as many take_back() calls. False if the other window is lent, or if this
  /// one is being packed again.
  bool try_lend(std::uint64_t step);
  void take_back(std::size_t window);

 private:
  std::shared_ptr<Segment> segment_;  // borrowers may outlive everything else
  std::size_t offset_;
  std::size_t window_bytes_;
  Order order_;
  mutable std::mutex mutex_;
  std::uint64_t num_opened_ = 0;
  std::array<std::size_t, 2> window_of_step_{};  // of the last two steps, by parity
  std::array<std::size_t, kNumWindows> num_lent_{};
};

}  // namespace tnt::comm
