#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// What this rank knows about the other ranks' processes. Thread-safe.
class PeerTable {
 public:
  PeerTable(int rank, int size)
      : rank_(rank),
        peers_(static_cast<std::size_t>(size)),
        is_reachable_(static_cast<std::size_t>(size)) {
    // Until a rank is known to be gone, messages to it are worth trying.
    for (auto& is_reachable : is_reachable_) is_reachable.store(true);
  }

  /// A sign of life has come from a rank.
  void heard_from(int rank) {
    const std::lock_guard lock(mutex_);
    at(peers_, rank).last_heard = Clock::now();
  }

  void joined(int rank, const std::string& host, int pid) {
    const std::lock_guard lock(mutex_);
    PeerStatus& joining = status(rank);
    joining.host = host;
    joining.pid = pid;
    if (joining.state == PeerState::starting) set_state(rank, PeerState::running);
  }

  void left(int rank, PeerState state, const std::string& reason) {
    // It comes from another rank, and may be none of the states.
    const bool is_end = state == PeerState::finished || state == PeerState::failed;
    const std::lock_guard lock(mutex_);
    const PeerState known = status(rank).state;
    if (known == PeerState::finished || known == PeerState::failed) return;
    status(rank).reason = reason;
    set_state(rank, is_end ? state : PeerState::dead);
  }

  /// A message to a rank has failed. Those that have left may be gone.
  void mark_dead(int rank) { end(rank, PeerState::dead, ""); }
  /// Its host is not there any more. Those that have left may be gone.
  void mark_vanished(int rank, const std::string& reason) {
    end(rank, PeerState::vanished, reason);
  }

  /// Whether something sent to the rank may arrive: it is running.
  bool is_reachable(int rank) const {
    return at(is_reachable_, rank).load(std::memory_order_acquire);
  }

  PeerStatus status_of(int rank) const {
    const std::lock_guard lock(mutex_);
    const Peer& peer = at(peers_, rank);
    PeerStatus status = peer.status;
    status.heartbeat_age_s = rank == rank_ ? 0 : seconds_since(peer.last_heard);
    return status;
  }

 private:
  struct Peer {
    PeerStatus status{.state = PeerState::starting};
    Clock::time_point last_heard = Clock::now();
  };

  PeerStatus& status(int rank) { return at(peers_, rank).status; }

  void end(int rank, PeerState state, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!is_reachable(rank)) return;
    status(rank).reason = reason;
    set_state(rank, state);
  }

  void set_state(int rank, PeerState state) {
    status(rank).state = state;
    const bool is_reachable = state == PeerState::starting || state == PeerState::running;
    at(is_reachable_, rank).store(is_reachable, std::memory_order_release);
  }

  int rank_;
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<std::atomic<bool>> is_reachable_;
};

/// Tells a host that has vanished from one whose processes are stopped, swapped out
/// or throttled. Neither is heard of; but the kernel of the latter answers probes.
///
/// A host counts as gone when it has been silent for `longest_silence_s`, and all
/// probes in the second half of that time were unanswered. Only if it answered the
/// first probe, at the start: firewalls may drop them.
class HostWatch {
 public:
  HostWatch(std::unique_ptr<HostProbe> probe, double longest_silence_s)
      : probe_(std::move(probe)), longest_silence_s_(longest_silence_s) {
    probe_->ask();
  }

  /// To be called several times per second. `silence_s`: since any rank of the host was heard of.
  bool is_gone(double silence_s, Clock::time_point now) {
    constexpr auto kQuestionInterval = std::chrono::seconds(1);
    // A process that looks later than this did not get to run itself, and does not know
    // yet what has come meanwhile.
    constexpr auto kLateLook = std::chrono::seconds(1);
    const bool is_late = now - last_look_ > kLateLook;
    last_look_ = now;
    has_ever_answered_ = has_ever_answered_ || probe_->answer() == HostProbe::Answer::given;
    if (!has_ever_answered_) return false;
    const double half_s = longest_silence_s_ / 2;
    if (is_late || silence_s < half_s) {
      unanswered_since_.reset();
      return false;
    }
    if (probe_->answer() != HostProbe::Answer::none) unanswered_since_.reset();
    if (now >= next_question_) {
      probe_->ask();
      next_question_ = now + kQuestionInterval;
      if (!unanswered_since_) unanswered_since_ = now;
    }
    return silence_s >= longest_silence_s_ && unanswered_since_ &&
           now - *unanswered_since_ >= Deadline::to_duration(half_s);
  }

  std::string host() const { return probe_->host(); }

 private:
  std::unique_ptr<HostProbe> probe_;
  double longest_silence_s_;
  bool has_ever_answered_ = false;
  Clock::time_point last_look_{};
  Clock::time_point next_question_{};
  std::optional<Clock::time_point> unanswered_since_;
};

/// Watches all hosts but this one, and marks the ranks of those that are gone.
class HostWatches {
 public:
  /// `nodes`: of all ranks. `stall_s`: after which a wait counts as a stall.
  HostWatches(RmaDevice& device, PeerTable& peers, const std::vector<int>& nodes, double stall_s)
      : peers_(peers) {
    // Ranks of one node may be on several hosts if nobody has said on how many.
    const int own_node = at(nodes, device.rank());
    const auto host_of = [&](int rank) {
      const auto probe = device.probe_of_host(rank);
      return probe ? probe->host() : std::string();
    };
    std::map<std::pair<int, std::string>, std::vector<int>> ranks_of;
    for (int rank = 0; rank < device.size(); ++rank) {
      const int node = at(nodes, rank);
      ranks_of[{node, node == own_node ? host_of(rank) : std::string()}].push_back(rank);
    }
    ranks_of.erase({own_node, host_of(device.rank())});
    // Networks repair themselves at times; several questions must fit into half of it.
    constexpr double kShortestLimitS = 3.0;
    for (auto& [place, ranks] : ranks_of) {
      auto probe = device.probe_of_host(ranks.front());
      if (!probe) continue;
      hosts_.push_back(
          {HostWatch(std::move(probe), std::max(stall_s, kShortestLimitS)), std::move(ranks)});
    }
  }

  /// To be called often; looks several times per second.
  void look() {
    constexpr auto kProbeInterval = std::chrono::milliseconds(100);
    constexpr double kNobody = std::numeric_limits<double>::infinity();
    const Clock::time_point now = Clock::now();
    if (now < next_look_) return;
    next_look_ = now + kProbeInterval;
    for (Host& host : hosts_) {
      double silence_s = kNobody;
      for (const int rank : host.ranks) {
        if (!peers_.is_reachable(rank)) continue;
        silence_s = std::min(silence_s, peers_.status_of(rank).heartbeat_age_s);
      }
      if (silence_s == kNobody || !host.watch.is_gone(silence_s, now)) continue;
      for (const int rank : host.ranks) {
        peers_.mark_vanished(
            rank, text("its host ", host.watch.host(), " was last heard from ", silence_s,
                       " s ago and does not answer connections: the host is down, or the"
                       " link to it. Look at that host, at this one's network (ip link,"
                       " ping), and at the switches between"));
      }
    }
  }

 private:
  struct Host {
    HostWatch watch;
    std::vector<int> ranks;
  };

  PeerTable& peers_;
  std::vector<Host> hosts_;
  Clock::time_point next_look_{};
};

}  // namespace tnt::comm
