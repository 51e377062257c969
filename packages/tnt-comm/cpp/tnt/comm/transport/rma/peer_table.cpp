#include "tnt/comm/transport/rma/peer_table.hpp"

namespace tnt::comm {

PeerTable::PeerTable(int rank, int size)
    : rank_(rank),
      peers_(static_cast<std::size_t>(size)),
      is_reachable_(static_cast<std::size_t>(size)) {
  // Until a rank is known to be gone, messages to it are worth trying.
  for (auto& is_reachable : is_reachable_) is_reachable.store(true);
}

void PeerTable::heard_from(int rank) {
  const std::lock_guard lock(mutex_);
  peer(rank).last_heard = Clock::now();
}

void PeerTable::joined(int rank, const std::string& host, int pid) {
  const std::lock_guard lock(mutex_);
  Peer& joining = peer(rank);
  joining.host = host;
  joining.pid = pid;
  if (joining.state == PeerState::starting) set_state(rank, PeerState::running);
}

void PeerTable::left(int rank, PeerState state, const std::string& reason) {
  // It comes from another rank, and may be none of the states.
  const bool is_end = state == PeerState::finished || state == PeerState::failed;
  const std::lock_guard lock(mutex_);
  const PeerState known = peer(rank).state;
  if (known == PeerState::finished || known == PeerState::failed) return;
  peer(rank).reason = reason;
  set_state(rank, is_end ? state : PeerState::dead);
}

void PeerTable::lost(int rank) {
  end(rank, PeerState::dead, "");
}

void PeerTable::vanished(int rank, const std::string& reason) {
  end(rank, PeerState::vanished, reason);
}

void PeerTable::end(int rank, PeerState state, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!is_reachable(rank)) return;
  peer(rank).reason = reason;
  set_state(rank, state);
}

void PeerTable::set_state(int rank, PeerState state) {
  peer(rank).state = state;
  const bool is_reachable = state == PeerState::starting || state == PeerState::running;
  is_reachable_[static_cast<std::size_t>(rank)].store(is_reachable, std::memory_order_release);
}

PeerStatus PeerTable::status_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  PeerStatus status;
  status.state = peer.state;
  status.heartbeat_age_s = rank == rank_ ? 0 : seconds_since(peer.last_heard);
  status.reason = peer.reason;
  status.host = peer.host;
  status.pid = peer.pid;
  return status;
}

}  // namespace tnt::comm
