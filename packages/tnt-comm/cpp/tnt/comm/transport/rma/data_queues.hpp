#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// The queues of a device: the first for control messages and heartbeats, the
/// others for the data of segments.
///
/// A full queue is never posted to: GPI-2 would call the receiving rank corrupt.
/// A queue on which something failed is *spoilt*: its count of requests may be
/// wrong from then on (the TCP device reports one failure several times), so
/// segments leave it. The control queue stays in use, since nothing there
/// depends on what it counts.
///
/// Threads: all functions may be called from any thread.
class DataQueues {
 public:
  static constexpr int kControl = 0;

  /// `on_failure` is called, from any thread, when a request has failed.
  DataQueues(RmaDevice& device, std::function<void()> on_failure);

  RmaDevice& device() const { return device_; }

  /// A queue for a new segment; PeerLost error if all are spoilt.
  int assign();

  bool is_spoilt(int queue) const { return is_spoilt_[static_cast<std::size_t>(queue)].load(); }

  /// Whether `num_requests` can be posted. Some slots stay free for threads that
  /// ask at the same time.
  bool has_room(int queue, std::size_t num_requests);

  /// Whether all that was posted is complete.
  bool is_idle(int queue) { return drain(queue) == QueueState::idle; }

  /// Waits until is_idle(), or the queue is spoilt, or the deadline; says
  /// whether it is idle.
  bool wait_until_idle(int queue, const Deadline& deadline);

  int count() const { return static_cast<int>(is_spoilt_.size()); }

 private:
  QueueState drain(int queue);

  RmaDevice& device_;
  std::function<void()> on_failure_;
  std::atomic<int> next_{0};
  std::vector<std::atomic<bool>> is_spoilt_;
};

}  // namespace tnt::comm
