#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/allgather.hpp"
#include "tnt/comm/base/export.hpp"
#include "tnt/comm/group/group.hpp"

namespace tnt::comm {

/// Gathers blocks of bytes of any lengths from all ranks, step after step, on
/// a channel of its own: independent of all other collectives.
///
/// A step is start() and then finish(), or take(). Thread-safe.
class TNT_COMM_EXPORT Gatherer {
 public:
  /// Collective among the group, blocking.
  Gatherer(std::shared_ptr<Group> group, std::string name);

  int size() const { return group_->size(); }

  /// Copies the block. Never waits for another rank.
  void start(const void* data, std::size_t num_bytes);

  /// Waits until all blocks have arrived; their sizes in bytes, in rank order.
  /// May be called any number of times before finish(). The step must have
  /// been started.
  std::vector<std::size_t> wait(double timeout_s = 0, const InterruptCheck& check_interrupt = {});

  /// Waits, writes all blocks back to back to `out`, and ends the step.
  void finish(void* out, double timeout_s = 0);

  /// Waits, returns all blocks back to back, and ends the step.
  std::vector<std::byte> take(std::vector<std::size_t>& num_bytes, double timeout_s = 0,
                              const InterruptCheck& check_interrupt = {});

  /// Later calls are usage errors. Local.
  void close() { is_closed_.store(true); }

 private:
  void observe(Allgather& operation, std::size_t num_bytes) const;
  std::shared_ptr<Allgather> current(const char* call);
  std::shared_ptr<Allgather> wait_for_current(const char* call, double timeout_s,
                                              const InterruptCheck& check_interrupt);
  void end_step(const std::shared_ptr<Allgather>& operation, const char* call);

  std::shared_ptr<Group> group_;
  std::string name_;
  std::shared_ptr<ChannelState> state_;
  std::shared_ptr<Stream> stream_ = std::make_shared<Stream>();
  RowId row_ = 0;  // of the timeline, if there is one
  std::mutex mutex_;
  std::shared_ptr<Allgather> operation_;  // null between the steps
  std::atomic<bool> is_closed_{false};
};

}  // namespace tnt::comm
