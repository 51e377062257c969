#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

enum class Progress {
  pending,   ///< nothing could be done: some rank has to act first
  advanced,  ///< something was done, and more is left
  done,
};

/// One collective in flight.
///
/// The engine calls advance() again and again until it returns `done`. A call
/// does a bounded amount of work and never blocks: work that would have to
/// wait returns `pending`, so that other operations get their turn.
///
/// Memory is allocated by the constructor, not by advance().
///
/// Threads: calls never overlap, but come from different threads (the engine's, those who wait).
class Operation {
 public:
  virtual ~Operation() = default;

  /// Throws an Error when the operation cannot be completed any more.
  virtual Progress advance() = 0;

  /// Called a few times per second while the operation is pending. The place to look whether those
  /// it waits for are still there; may advance it, and throw, like advance().
  virtual Progress supervise() = 0;

  /// The last call: advance() said `done`, or the operation has failed.
  virtual void complete() = 0;
  virtual void fail(const Error& error) = 0;
};

/// Counts how often a repeated block of work was completed, and carries the
/// error that ended it. Any number of threads may wait; waiting sleeps in the
/// kernel. An operation that runs once is complete when the count is 1.
///
/// Counts are compared modulo 2^31, so a wait must be for a nearby count.
class Completion {
 public:
  /// True when `count` completions have happened, or an error has.
  bool has_reached(std::uint32_t count) const {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    return (word & kFailed) != 0 || is_at_least(word, count);
  }

  /// Sleeps until has_reached(count) or the deadline; says which.
  bool wait_until(std::uint32_t count, Clock::time_point end) const {
    while (true) {
      const std::uint32_t word = word_.load(std::memory_order_acquire);
      if ((word & kFailed) != 0 || is_at_least(word, count)) return true;
      const auto left = end - Clock::now();
      if (left <= Clock::duration::zero()) return false;
      num_sleepers_.fetch_add(1);
      futex_wait(word_, word, left);
      num_sleepers_.fetch_sub(1);
    }
  }

  /// Throws the stored error if the count was not reached before it.
  void rethrow_unless_completed(std::uint32_t count) const {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & kFailed) != 0 && !is_at_least(word, count)) error_->raise();
  }

  void complete() {
    // A plain addition would carry into the error bit after 2^31 steps.
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, (word & kFailed) | ((word + 1) & ~kFailed))) {
    }
    wake();
  }

  /// The first error stays; later ones are ignored.
  void fail(const Error& error) {
    if ((word_.load(std::memory_order_acquire) & kFailed) != 0) return;
    error_ = error;
    word_.fetch_or(kFailed);
    wake();
  }

 private:
  static constexpr std::uint32_t kFailed = 1U << 31;

  // Shifting out the error bit makes the difference wrap at 2^31, and its sign
  // tell which of two nearby counts is the older one.
  static bool is_at_least(std::uint32_t word, std::uint32_t count) {
    return static_cast<std::int32_t>((word << 1) - (count << 1)) >= 0;
  }

  // Mostly nobody sleeps: who waits helps first. Who is counted too late for this look finds the
  // new word.
  void wake() {
    if (num_sleepers_.load() != 0) futex_wake_all(word_);
  }

  std::atomic<std::uint32_t> word_{0};                  // count, and kFailed
  mutable std::atomic<std::uint32_t> num_sleepers_{0};  // or about to sleep
  std::optional<Error> error_;                          // written once, before kFailed is set
};

/// Operations that must run one after the other, in the order of submission: those of one group or
/// object. Streams are independent of each other, so one that has to wait holds up nobody else.
///
/// A thread may *hold* a stream that has nothing to do, and run an operation by itself; what others
/// submit meanwhile waits until it is released: see Engine::Hold.
///
/// Only the engine touches it, its state aside under its lock.
class Stream : public std::enable_shared_from_this<Stream> {
 private:
  friend class Engine;
  static constexpr std::uint32_t kHeld = 1U << 31;

  // Whether the engine may act on it, and has what to.
  bool has_turn() const {
    return !operations_.empty() && (state_.load(std::memory_order_acquire) & kHeld) == 0;
  }

  std::atomic<std::uint32_t> state_{0};  // number of unfinished operations, and kHeld
  std::list<std::shared_ptr<Operation>> operations_;
  // The engine's list of those that have work takes this entry, so that it needs no memory.
  std::list<std::shared_ptr<Stream>> entry_{1};
};

}  // namespace tnt::comm
