#pragma once

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

}  // namespace tnt::comm
