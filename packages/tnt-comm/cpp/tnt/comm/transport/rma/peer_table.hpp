#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// What this rank knows about the other ranks' processes.
///
/// Threads: all functions may be called from any thread.
class PeerTable {
 public:
  PeerTable(int rank, int size);

  /// A sign of life has come from a rank.
  void heard_from(int rank);
  void joined(int rank, const std::string& host, int pid);
  void left(int rank, PeerState state, const std::string& reason);
  /// A message to a rank has failed. Those that have left may be gone.
  void lost(int rank);
  /// Its host is not there any more. Those that have left may be gone.
  void vanished(int rank, const std::string& reason);

  /// Whether something sent to the rank may arrive: it is running.
  bool is_reachable(int rank) const {
    return is_reachable_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  PeerStatus status_of(int rank) const;

 private:
  struct Peer {
    PeerState state = PeerState::starting;
    Clock::time_point last_heard = Clock::now();
    std::string reason;
    std::string host;
    int pid = 0;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void end(int rank, PeerState state, const std::string& reason);
  void set_state(int rank, PeerState state);

  int rank_;
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<std::atomic<bool>> is_reachable_;
};

}  // namespace tnt::comm
