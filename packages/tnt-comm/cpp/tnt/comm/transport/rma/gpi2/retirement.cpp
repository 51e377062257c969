#include "tnt/comm/transport/rma/gpi2/retirement.hpp"

#include <algorithm>
#include <utility>

namespace tnt::comm {

Retirement::Retirement(Gaspi& gaspi, DataQueues& queues, Mailbox& mailbox, PeerTable& peers,
                       Rendezvous& rendezvous, SegmentIds& ids)
    : gaspi_(gaspi),
      queues_(queues),
      mailbox_(mailbox),
      peers_(peers),
      rendezvous_(rendezvous),
      ids_(ids) {}

void Retirement::add(RetiredSegment segment) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(segment)});
}

void Retirement::advance() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [this](Entry& entry) { return try_free(entry); });
}

bool Retirement::try_free(Entry& entry) {
  const RetiredSegment& segment = entry.segment;
  if (!entry.is_announced) {
    // What this rank has put must have left before others free their parts.
    const auto& queue = segment.queue;
    if (queue && !queues_.is_spoilt(*queue) && !queues_.is_idle(*queue)) return false;
    for (const int rank : segment.members) {
      if (rank != gaspi_.rank()) mailbox_.send(rank, released_message(segment.key));
    }
    entry.is_announced = true;
  }
  const bool is_in_use = std::any_of(segment.members.begin(), segment.members.end(), [&](int rank) {
    return rank != gaspi_.rank() && peers_.is_reachable(rank) &&
           !rendezvous_.has_released(segment.key, rank);
  });
  if (is_in_use) return false;
  for (const int rank : segment.members) rendezvous_.forget(segment.key, rank);
  if (!segment.id) return true;
  gaspi_.release(*segment.id);
  ids_.give_back(*segment.id);
  return true;
}

}  // namespace tnt::comm
