#pragma once

#include <sys/types.h>

#include <vector>

namespace tnt::comm {

/// Keeps the sockets of GPI-2 out of child processes.
///
/// GPI-2 opens them without CLOEXEC. A child that inherits them keeps a dead
/// rank's connections open: nobody notices the death, and its ports stay taken.
/// So programs that are executed do not get them, and forked children close
/// them.
class InheritedSockets {
 public:
  /// Remembers which descriptors are open already, and not GPI-2's.
  InheritedSockets();

  /// All sockets opened since belong to GPI-2. Once per process.
  void adopt_new_ones();

 private:
  std::vector<int> descriptors_before_;
};

}  // namespace tnt::comm
