#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {

/// Gathers blocks of bytes of any lengths from all ranks, step after step, on
/// a ring of its own: independent of all other collectives.
///
/// A step is start() and then finish(), or take(). Thread-safe.
class TNT_COMM_EXPORT Gatherer {
 public:
  /// Collective among the group, blocking.
  Gatherer(std::shared_ptr<Group> group, std::string name);

  int size() const { return group_->size(); }

  /// Copies the block. Never waits for another rank.
  void start(const void* data, std::size_t num_bytes, const CallLabel& label = {});

  /// Waits until all blocks have arrived; their sizes in bytes, in rank order. May be called any
  /// number of times before finish(). The step must have been started.
  std::vector<std::size_t> wait(double timeout_s = 0, const InterruptCheck& check_interrupt = {});

  /// Waits, writes all blocks back to back to `out`, and ends the step.
  void finish(void* out, double timeout_s = 0);

  /// Waits, returns all blocks back to back, and ends the step.
  RecycledMemory take(std::vector<std::size_t>& num_bytes, double timeout_s = 0,
                      const InterruptCheck& check_interrupt = {});

  /// The longest wait of calls that say none; <= 0: the job's, as at the beginning.
  void set_timeout(double timeout_s) { timeout_s_.store(timeout_s); }

  /// Later calls are usage errors. Local.
  void close() { is_closed_.store(true); }

 private:
  /// In the calls that follow start(): what it has started.
  std::shared_ptr<Request> wait_for_request(const char* call, double timeout_s,
                                            const InterruptCheck& check_interrupt);
  /// Likewise, and ends the step.
  std::shared_ptr<Request> take_request(double timeout_s, const InterruptCheck& check_interrupt);
  void require_open() const;

  std::shared_ptr<Group> group_;
  std::string name_;
  CallStream stream_;
  std::mutex mutex_;
  std::shared_ptr<Request> request_;  // null between the steps
  std::atomic<double> timeout_s_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace tnt::comm
