#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

/// What one call of Operation::advance() achieved.
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

  /// Called a few times per second while the operation is pending. The place
  /// to look whether those it waits for are still there; may throw like
  /// advance().
  virtual void supervise() = 0;

  /// The last call: advance() said `done`, or the operation has failed.
  virtual void complete() = 0;
  virtual void fail(const Error& error) = 0;
};

/// Operations that must run one after the other, in the order of submission:
/// those of one channel. Streams are independent of each other, so one that
/// has to wait holds up nobody else.
///
/// A thread may *hold* a stream that has nothing to do, and run an operation
/// by itself; what others submit meanwhile waits until it is released: see
/// Engine::Hold.
///
/// Only the engine touches it, its state aside under its lock.
class Stream : public std::enable_shared_from_this<Stream> {
 private:
  friend class Engine;
  static constexpr std::uint32_t kHeld = 1U << 31;

  std::atomic<std::uint32_t> state_{0};  // number of unfinished operations, and kHeld
  std::list<std::shared_ptr<Operation>> operations_;
  // The engine's list of those that have work takes this entry, so that it needs no memory.
  std::list<std::shared_ptr<Stream>> entry_{1};
};

}  // namespace tnt::comm
