#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "tnt/comm/base/error.hpp"
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
/// Threads: calls never overlap, but may come from different threads (the
/// engine's and those of callers who wait).
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
  bool has_reached(std::uint32_t count) const;

  /// Sleeps until has_reached(count) or the deadline; says which.
  bool wait_until(std::uint32_t count, Clock::time_point end) const;

  /// Throws the stored error if the count was not reached before it.
  void rethrow_unless_completed(std::uint32_t count) const;

  void complete();

  /// The first error stays; later ones are ignored.
  void fail(const Error& error);

 private:
  static constexpr std::uint32_t kFailed = 1U << 31;

  void wake();

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
