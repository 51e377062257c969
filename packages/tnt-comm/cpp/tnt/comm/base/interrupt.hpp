#pragma once

#include <functional>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// Called several times per second during a wait; throws to end it (Python:
/// Ctrl-C). Empty: nothing interrupts.
using InterruptCheck = std::function<void()>;

/// While it lives, a check is made in all waits of this thread for other ranks
/// that have none of their own: those in which a job is joined and objects are
/// created.
class TNT_COMM_EXPORT InterruptScope {
 public:
  explicit InterruptScope(InterruptCheck check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  InterruptCheck before_;
};

/// The check of this thread; empty outside of an InterruptScope.
const InterruptCheck& interrupt_check_of_this_thread();

/// Makes it, at most some times per second. To be called in loops that wait.
void check_interrupt();

}  // namespace tnt::comm
