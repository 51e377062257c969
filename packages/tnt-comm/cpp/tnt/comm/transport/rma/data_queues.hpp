#pragma once

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"
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
  DataQueues(RmaDevice& device, std::function<void()> on_failure)
      : device_(device),
        on_failure_(std::move(on_failure)),
        is_spoilt_(static_cast<std::size_t>(device.num_queues())) {}

  /// A queue for a new segment; PeerLost error if all are spoilt.
  int assign() {
    const int num_data_queues = count() - 1;
    for (int attempt = 0; attempt < num_data_queues; ++attempt) {
      const auto turn = static_cast<unsigned>(next_.fetch_add(1));
      const int queue = 1 + static_cast<int>(turn % static_cast<unsigned>(num_data_queues));
      if (!is_spoilt(queue)) return queue;
    }
    throw Error(ErrorKind::peer_lost,
                text("rank ", device_.rank(), ": all ", num_data_queues, " queues of ",
                     device_.name(), " have failed with ranks that were lost."));
  }

  bool is_spoilt(int queue) const { return is_spoilt_[static_cast<std::size_t>(queue)].load(); }

  /// Whether `num_requests` can be posted. Some slots stay free for threads that
  /// ask at the same time.
  bool has_room(int queue, std::size_t num_requests) {
    constexpr std::size_t kReserve = 64;
    const auto fits = [&] {
      return device_.num_queued(queue) + num_requests + kReserve <= device_.queue_capacity();
    };
    if (fits()) return true;
    is_idle(queue);  // frees slots
    return fits();
  }

  /// Whether all that was posted is complete.
  bool is_idle(int queue) {
    const QueueState state = device_.drain(queue);
    if (state == QueueState::failed) {
      if (queue != kControl) is_spoilt_[static_cast<std::size_t>(queue)].store(true);
      on_failure_();
    }
    return state == QueueState::idle;
  }

  int count() const { return static_cast<int>(is_spoilt_.size()); }

 private:
  RmaDevice& device_;
  std::function<void()> on_failure_;
  std::atomic<int> next_{0};
  std::vector<std::atomic<bool>> is_spoilt_;
};

}  // namespace tnt::comm
