#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// Which segment ids of this rank are free. Every rank numbers its segments for
/// itself: what others need to know, they are told.
class SegmentIds {
 public:
  /// The smallest free id, if there is one.
  std::optional<SegmentId> take() {
    const std::lock_guard lock(mutex_);
    for (std::size_t id = 0; id < is_taken_.size(); ++id) {
      if (is_taken_[id]) continue;
      is_taken_[id] = true;
      return static_cast<SegmentId>(id);
    }
    return std::nullopt;
  }

  void give_back(SegmentId id) {
    const std::lock_guard lock(mutex_);
    is_taken_[id] = false;
  }

 private:
  std::mutex mutex_;
  std::array<bool, RmaDevice::kNumSegments> is_taken_{};
};

/// What other ranks have said about segments that are being created or given
/// back, by the segments' keys. Messages may come before this rank asks. Thread-safe.
class SegmentNotices {
 public:
  struct Said {
    /// What the rank asks for: bytes, notifications, members. All members must ask for the same.
    std::optional<ControlMessage::Numbers> terms;
    std::optional<SegmentId> part;
    bool has_released = false;
  };

  void note(int from, const ControlMessage& message) {
    if (message.kind < ControlKind::creating || message.kind > ControlKind::released) {
      throw Error(ErrorKind::mismatch,
                  text("rank ", from, " has sent a message of kind ",
                       static_cast<std::uint32_t>(message.kind),
                       ", which this rank does not know. Start all ranks with the same version of"
                       " tnt-comm."));
    }
    const std::lock_guard lock(mutex_);
    Said& said = said_[{message.text(), from}];
    if (message.kind == ControlKind::creating) said.terms = message.numbers;
    if (message.kind == ControlKind::ready) said.part = static_cast<SegmentId>(message.numbers[0]);
    if (message.kind == ControlKind::released) said.has_released = true;
  }

  Said said(const std::string& key, int rank) const {
    const std::lock_guard lock(mutex_);
    const auto found = said_.find({key, rank});
    return found == said_.end() ? Said{} : found->second;
  }

  /// Keys are used once: after all members have released it, nobody asks again.
  void forget(const std::string& key, int rank) {
    const std::lock_guard lock(mutex_);
    said_.erase({key, rank});
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, Said> said_;
};

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
/// engine's thread has no part in that, so it never waits in the network library. Thread-safe.
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
  SegmentNotices& segment_notices() { return segment_notices_; }
  SegmentIds& segment_ids() { return segment_ids_; }
  double timeout_s() const { return timeout_s_; }
  int rank() const { return device_->rank(); }
  int size() const { return device_->size(); }
  int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  /// The engine runs.
  void beat() { is_engine_alive_.store(true, std::memory_order_relaxed); }

  /// Waits until none of `ranks` is missing any more; `what` completes "has waited for rank 1 to
  /// ...". Reports who is missing if that takes long. Errors at the deadline, if a missing one has
  /// left, or if any of them is lost; and those of `look_around`, which is called at each look.
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
  SegmentNotices segment_notices_;
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
