#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/progress/engine.hpp"

namespace tnt::comm {

/// The stalls of one rank that were reported and last: which wait, and for which ranks it waits.
///
/// Threads that wait for the same rank at the same time, be it in a hundred
/// operations, are held up by one stall, which is reported once. Thread-safe.
class Stalls {
 public:
  using Wait = const void*;

  /// Whether there are none, so that nothing needs to be asked.
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return ranks_.empty();
  }

  /// Whether other waits, for all of these world ranks, have been reported and last.
  bool cover(Wait wait, const std::vector<int>& ranks) const;

  /// A wait has been reported, and is for these ranks now.
  void set(Wait wait, std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    ranks_[wait] = std::move(ranks);
  }

  /// The wait is over, or begins anew.
  void end(Wait wait) {
    const std::lock_guard lock(mutex_);
    ranks_.erase(wait);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Wait, std::vector<int>> ranks_;
};

class Group;

/// Ends the error of a call that others answer with the creation of a group.
inline constexpr const char* kCreationRule =
    ". Every member of a group must create it, in the same order as it makes its other calls.";

/// Waits until the group's operation has completed `count` times. Throws its error; breaks the
/// group if `timeout_s` passes or the check throws (that of the thread, if it is empty). On return
/// or throw nothing touches the operation's memory any more, unless it was completed only for an
/// earlier count.
void wait_for(Group& group, CollectiveOperation& operation, std::uint32_t count, double timeout_s,
              const InterruptCheck& check_interrupt);

}  // namespace tnt::comm
