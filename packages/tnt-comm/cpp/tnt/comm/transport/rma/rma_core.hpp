#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/process.hpp"
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
      throw Error(ErrorKind::mismatch, "rank ", from, " has sent a message of kind ",
                  static_cast<std::uint32_t>(message.kind),
                  ", which this rank does not know. Start all ranks with the same version of"
                  " tnt-comm.");
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
  /// Collective among all ranks, blocking. UsageError if builds or locations contradict each other.
  RmaCore(std::unique_ptr<RmaDevice> device, const Environment& environment,
          const Deadline& deadline)
      : device_(std::move(device)),
        timeout_s_(environment.timeout_s),
        stall_report_s_(environment.stall_report_s),
        peers_(device_->rank(), device_->size()),
        queues_(*device_,
                [this] {
                  for (const int rank : device_->failed_ranks()) peers_.mark_dead(rank);
                }),
        locations_(static_cast<std::size_t>(device_->size())),
        mailbox_(*device_, *segment_ids_.take(),  // the same on all ranks: the first
                 peers_, queues_,
                 [this](int from, const ControlMessage& message) { take(from, message); }) {
    exchange_locations(location_of(environment, device_->name()), deadline);
    thread_ = start_without_signals("tnt-comm-rma", [this] { look_after_everything(); });
  }

  ~RmaCore() {
    is_stopping_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  RmaDevice& device() { return *device_; }
  PeerTable& peers() { return peers_; }
  DataQueues& queues() { return queues_; }
  Mailbox& mailbox() { return mailbox_; }
  SegmentNotices& segment_notices() { return segment_notices_; }
  SegmentIds& segment_ids() { return segment_ids_; }
  double timeout_s() const { return timeout_s_; }
  int rank() const { return device_->rank(); }
  int size() const { return device_->size(); }
  int node_of(int rank) const { return at(nodes_, rank); }

  /// The engine runs.
  void beat() { is_engine_alive_.store(true, std::memory_order_relaxed); }

  /// Waits until none of `ranks` is missing any more; `what` completes "has waited for rank 1 to
  /// ...". Reports who is missing if that takes long. Errors at the deadline, if a missing one has
  /// left, or if any of them is lost; and those of `look_around`, which is called at each look.
  void wait_for(
      const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
      const std::string& what, const Deadline& deadline,
      const std::function<void()>& look_around = [] {}, const char* remedy = kCreateTogether) {
    std::vector<int> missing;
    const auto complaint = [&](double waited_s) {
      return text("has waited ", waited_s, " s for ", names_of_ranks(missing), " to ", what, ".");
    };
    const PolledWait wait{.rank = rank(),
                          .deadline = deadline,
                          .stall_report_s = stall_report_s_,
                          .interval = kWaitInterval,
                          .complaint = complaint,
                          .remedy = remedy};
    poll_until(wait, [&] {
      beat();  // who waits here is alive, and only beats find out who is not
      tick();
      missing.clear();
      std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(missing), is_missing);
      if (missing.empty()) return true;
      look_around();
      require_alive(ranks, is_missing, what);
      return false;
    });
  }

  /// Frees the segment when no other member can write into its memory any more: when all of
  /// them have released theirs or are gone. Until then its id is not used again.
  void retire(RetiredSegment segment) {
    const std::lock_guard lock(retired_mutex_);
    retired_.push_back(std::move(segment));
  }

  /// Tells the others, and waits (for a limited time) until they know: a
  /// connection that closes takes with it what the other side has not read.
  void leave(PeerState state, const std::string& reason) {
    // A rank that is stopped holds up the end of others for at most these.
    constexpr double kLastDataS = 1.0;
    constexpr double kLastWordsS = 1.0;
    // Or others could hear that this rank has left before they have what it did for them last.
    const Deadline data_deadline(kLastDataS);
    for (int queue = 1; queue < queues_.count(); ++queue) {
      while (!queues_.is_idle(queue) && !queues_.is_spoilt(queue) && !data_deadline.is_over()) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    if (!has_left_.exchange(true)) {
      const ControlMessage message(ControlKind::leaving, reason,
                                   {static_cast<std::int64_t>(state)});
      for (const int other : others()) mailbox_.send(other, message);
    }
    const auto does_not_know = [this](int other) {
      return peers_.is_reachable(other) && !mailbox_.is_delivered(other);
    };
    const std::vector<int> ranks = others();
    const Deadline deadline(kLastWordsS);
    while (std::any_of(ranks.begin(), ranks.end(), does_not_know) && !deadline.is_over()) {
      tick();
      std::this_thread::sleep_for(kWaitInterval);
    }
  }

 private:
  static constexpr auto kWaitInterval = std::chrono::microseconds(300);

  // Goes on after an error, since the other ranks must be watched all the same.
  void look_after_everything() {
    std::string last_error;
    while (!is_stopping_.load()) {
      try {
        tick();
      } catch (...) {
        const std::string error = Error::current().what();
        if (error != last_error) {
          log_warning(rank(), device_->name(), " has failed: ", error, " [network-failed]");
        }
        last_error = error;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void tick() {
    const std::unique_lock lock(tick_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // somebody else does it
    beat_if_due();
    mailbox_.exchange();
    queues_.is_idle(DataQueues::kControl);  // frees its slots, and notices failures
    if (host_watches_) host_watches_->look();
    const std::lock_guard retired_lock(retired_mutex_);
    for (auto segment = retired_.begin(); segment != retired_.end();) {  // one of them may throw
      segment = try_free(*segment) ? retired_.erase(segment) : std::next(segment);
    }
  }

  void beat_if_due() {
    const Clock::time_point now = Clock::now();
    if (now < next_beat_) return;
    next_beat_ = now + std::chrono::milliseconds(250);
    if (is_engine_alive_.exchange(false, std::memory_order_relaxed)) mailbox_.beat(others());
  }

  bool try_free(RetiredSegment& segment) {
    if (!segment.is_announced) {
      // What this rank has put must have left before others free their parts.
      const auto& queue = segment.queue;
      if (queue && !queues_.is_spoilt(*queue) && !queues_.is_idle(*queue)) return false;
      for (const int member : segment.members) {
        if (member != rank()) mailbox_.send(member, {ControlKind::released, segment.key});
      }
      segment.is_announced = true;
    }
    const auto may_write = [&](int member) {
      return member != rank() && peers_.is_reachable(member) &&
             !segment_notices_.said(segment.key, member).has_released;
    };
    if (std::any_of(segment.members.begin(), segment.members.end(), may_write)) return false;
    for (const int member : segment.members) segment_notices_.forget(segment.key, member);
    const std::optional<SegmentId> id = std::exchange(segment.id, std::nullopt);
    if (!id) return true;
    device_->release(*id);  // if it fails, the id is lost, and not released again
    segment_ids_.give_back(*id);
    return true;
  }

  void take(int from, const ControlMessage& message) {
    if (message.kind == ControlKind::leaving) {
      return peers_.left(from, static_cast<PeerState>(message.numbers[0]), message.text());
    }
    if (message.kind != ControlKind::hello) return segment_notices_.note(from, message);
    const RankLocation location = location_in(message);
    peers_.joined(from, location.host, location.pid);
    const std::lock_guard lock(locations_mutex_);
    at(locations_, from) = location;
  }

  void require_alive(const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
                     const std::string& what) const {
    for (const int other : ranks) {
      if (peers_.is_reachable(other)) continue;
      const PeerStatus status = peers_.status_of(other);
      // Who has finished may have done its part before.
      if (status.state == PeerState::finished && !is_missing(other)) continue;
      throw Error(ErrorKind::peer_lost, "rank ", rank(), " waits for rank ", other, " (host ",
                  status.host, ", pid ", status.pid, ") and others to ", what, ", but it ",
                  status.state == PeerState::vanished ? "cannot be reached" : "has ended",
                  status.reason.empty() ? "" : ": ", status.reason, full_stop_after(status.reason),
                  status.state == PeerState::vanished ? "" : " See the output of that rank.")
          .caused_by(other);
    }
  }

  void exchange_locations(const RankLocation& location, const Deadline& deadline) {
    const ControlMessage hello = hello_of(location);
    take(rank(), hello);
    for (const int other : others()) mailbox_.send(other, hello);
    const auto is_stranger = [this](int other) {
      const std::lock_guard lock(locations_mutex_);
      return !at(locations_, other);
    };
    wait_for(others(), is_stranger, "say where they are", deadline, [] {}, "See their output.");
    std::vector<RankLocation> locations;
    for (const auto& known : locations_) locations.push_back(*known);
    nodes_ = nodes_of(locations);
    host_watches_.emplace(*device_, peers_, nodes_, stall_report_s_);
  }

  std::vector<int> others() const {
    return ranks_where(size(), [this](int other) { return other != rank(); });
  }

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
