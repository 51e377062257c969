#pragma once

#include <netinet/in.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// What this rank knows about the other ranks' processes. Thread-safe.
class PeerTable {
 public:
  PeerTable(int rank, int size);

  /// A sign of life has come from a rank.
  void heard_from(int rank);
  void joined(int rank, const std::string& host, int pid);
  void left(int rank, PeerState state, const std::string& reason);
  /// A message to a rank has failed. Those that have left may be gone.
  void lost(int rank) { end(rank, PeerState::dead, ""); }
  /// Its host is not there any more. Those that have left may be gone.
  void vanished(int rank, const std::string& reason) { end(rank, PeerState::vanished, reason); }

  /// Whether something sent to the rank may arrive: it is running.
  bool is_reachable(int rank) const {
    return is_reachable_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  PeerStatus status_of(int rank) const;

 private:
  struct Peer {
    PeerStatus status{.state = PeerState::starting};
    Clock::time_point last_heard = Clock::now();
  };

  PeerStatus& status(int rank) { return peers_[static_cast<std::size_t>(rank)].status; }
  void end(int rank, PeerState state, const std::string& reason);
  void set_state(int rank, PeerState state);

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
  HostWatch(std::unique_ptr<HostProbe> probe, double longest_silence_s);

  /// To be called several times per second. `silence_s`: since something was heard of
  /// any rank of the host.
  bool is_gone(double silence_s, Clock::time_point now);

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
  HostWatches(RmaDevice& device, PeerTable& peers, const std::vector<int>& nodes, double stall_s);

  /// To be called often; looks several times per second.
  void look();

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
