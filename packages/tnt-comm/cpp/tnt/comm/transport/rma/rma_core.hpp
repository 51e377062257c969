#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tnt/comm/transport/rma/data_queues.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rendezvous.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// A segment that this rank does not use any more, or could not create.
struct RetiredSegment {
  std::string key;
  std::optional<SegmentId> id;  // of this rank's part, if it is there
  std::optional<int> queue;     // through which this rank has written, if it has
  std::vector<int> members;     // world ranks, this one among them
  bool is_announced = false;    // to the other members
};

/// What one rank has once on a network: its peers, its messages to them, its
/// queues, and a thread that looks after these every few milliseconds. The
/// engine's thread has no part in that, so it never waits in the network library.
///
/// Threads: all functions may be called from any thread.
class RmaCore {
 public:
  /// Collective among all ranks, blocking. UsageError if the ranks' builds or locations
  /// contradict each other.
  RmaCore(std::unique_ptr<RmaDevice> device, const Environment& environment,
          const Deadline& deadline);
  ~RmaCore();

  RmaDevice& device() { return *device_; }
  PeerTable& peers() { return peers_; }
  DataQueues& queues() { return queues_; }
  Mailbox& mailbox() { return mailbox_; }
  Rendezvous& rendezvous() { return rendezvous_; }
  SegmentIds& segment_ids() { return segment_ids_; }
  double timeout_s() const { return timeout_s_; }
  int rank() const { return device_->rank(); }
  int size() const { return device_->size(); }
  int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  /// The engine runs.
  void beat() { is_engine_alive_.store(true, std::memory_order_relaxed); }

  /// Waits until none of `ranks` is missing any more; `what` completes "has
  /// waited for rank 1 to ...". Reports who is missing if that takes long. Errors
  /// at the deadline, if a missing one has left, or if any of them is lost; and
  /// those of `look_around`, which is called at each look.
  void wait_for(
      const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
      const std::string& what, const Deadline& deadline,
      const std::function<void()>& look_around = [] {}, const char* remedy = kCreateTogether);

  /// Frees the segment when no other member can write into its memory any more: when all of
  /// them have released theirs or are gone. Until then its id is not used again.
  void retire(RetiredSegment segment);

  /// Tells the others, and waits (for a limited time) until they know: a
  /// connection that closes takes with it what the other side has not read.
  void leave(PeerState state, const std::string& reason);

 private:
  void look_after_everything();
  void tick();
  void beat_if_due();
  bool try_free(RetiredSegment& segment);
  void take(int from, const ControlMessage& message);
  void require_alive(const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
                     const std::string& what) const;
  void exchange_locations(const RankLocation& location, const Deadline& deadline);
  std::vector<int> others() const;

  std::unique_ptr<RmaDevice> device_;
  double timeout_s_;
  double stall_report_s_;
  PeerTable peers_;
  DataQueues queues_;
  Rendezvous rendezvous_;
  SegmentIds segment_ids_;
  std::mutex locations_mutex_;
  std::vector<std::optional<RankLocation>> locations_;
  Mailbox mailbox_;
  std::mutex retired_mutex_;
  std::vector<RetiredSegment> retired_;
  std::vector<int> nodes_;
  std::optional<HostWatches> host_watches_;  // once the ranks' hosts are known
  std::atomic<bool> is_engine_alive_{true};
  std::atomic<bool> has_left_{false};
  std::mutex tick_mutex_;
  Clock::time_point next_beat_ = Clock::now();
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace tnt::comm
