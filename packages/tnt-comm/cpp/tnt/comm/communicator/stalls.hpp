#pragma once

#include <map>
#include <mutex>
#include <vector>

namespace tnt::comm {

/// The stalls of one rank that have been reported and last: which wait was
/// reported, and for which ranks it waits.
///
/// Threads that wait for the same rank at the same time, be it in a hundred
/// operations, are held up by one stall, which is reported once.
///
/// Threads: all functions may be called from any thread.
class Stalls {
 public:
  /// Names a wait, as long as it lasts.
  using Wait = const void*;

  /// Whether there are none, so that nothing needs to be asked.
  bool empty() const;

  /// Whether other waits, for all of these world ranks, have been reported and last.
  bool cover(Wait wait, const std::vector<int>& ranks) const;

  /// A wait has been reported, and is for these ranks now.
  void set(Wait wait, std::vector<int> ranks);

  /// The wait is over, or begins anew.
  void end(Wait wait);

 private:
  mutable std::mutex mutex_;
  std::map<Wait, std::vector<int>> ranks_;
};

}  // namespace tnt::comm
