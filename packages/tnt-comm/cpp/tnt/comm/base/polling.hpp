#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tnt/comm/base/deadline.hpp"
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

/// A wait for other ranks in which this one looks again and again.
struct PolledWait {
  int rank = 0;  ///< this one
  const Deadline& deadline;
  double stall_report_s = 0;
  std::chrono::microseconds interval{500};  ///< between two looks
  /// What has been waited for, for so many seconds: said in a warning, and at the deadline with
  /// the remedy.
  std::function<std::string(double)> complaint;
  std::string remedy;
};

/// Looks until `is_reached`. Warns once of a long wait; throws a timeout error, what
/// Ctrl-C throws, and what `is_reached` throws.
void poll_until(const PolledWait& wait, const std::function<bool()>& is_reached);

}  // namespace tnt::comm
