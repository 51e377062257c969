#include "tnt/comm/transport/rma/segment_lifecycle.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

void Rendezvous::note(int from, const ControlMessage& message) {
  if (message.kind < ControlKind::creating || message.kind > ControlKind::released) {
    throw Error(ErrorKind::mismatch,
                text("rank ", from, " has sent a message of kind ",
                     static_cast<std::uint32_t>(message.kind),
                     ", which this rank does not know. Start all ranks with the same version of"
                     " tnt-comm."));
  }
  const std::lock_guard lock(mutex_);
  Said& said = said_[{message.text(), from}];
  switch (message.kind) {
    case ControlKind::creating:
      said.terms = SegmentTerms{message.numbers[0], message.numbers[1], message.numbers[2]};
      break;
    case ControlKind::ready:
      said.part = static_cast<SegmentId>(message.numbers[0]);
      break;
    default:
      said.has_released = true;
  }
}

Rendezvous::Said Rendezvous::said(const std::string& key, int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = said_.find({key, rank});
  return found == said_.end() ? Said{} : found->second;
}

std::optional<SegmentTerms> Rendezvous::terms_of(const std::string& key, int rank) const {
  return said(key, rank).terms;
}

std::optional<SegmentId> Rendezvous::part_of(const std::string& key, int rank) const {
  return said(key, rank).part;
}

bool Rendezvous::has_released(const std::string& key, int rank) const {
  return said(key, rank).has_released;
}

void Rendezvous::forget(const std::string& key, int rank) {
  const std::lock_guard lock(mutex_);
  said_.erase({key, rank});
}

ControlMessage creating_message(const std::string& key, const SegmentTerms& terms) {
  ControlMessage message;
  message.kind = ControlKind::creating;
  message.numbers = {terms.num_bytes, terms.num_notifications, terms.num_members};
  message.set_text(key);
  return message;
}

ControlMessage ready_message(const std::string& key, SegmentId segment) {
  ControlMessage message;
  message.kind = ControlKind::ready;
  message.numbers[0] = segment;
  message.set_text(key);
  return message;
}

ControlMessage released_message(const std::string& key) {
  ControlMessage message;
  message.kind = ControlKind::released;
  message.set_text(key);
  return message;
}

Retirement::Retirement(DataQueues& queues, Mailbox& mailbox, PeerTable& peers,
                       Rendezvous& rendezvous, SegmentIds& ids)
    : device_(queues.device()),
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
      if (rank != device_.rank()) mailbox_.send(rank, released_message(segment.key));
    }
    entry.is_announced = true;
  }
  const bool is_in_use = std::any_of(segment.members.begin(), segment.members.end(), [&](int rank) {
    return rank != device_.rank() && peers_.is_reachable(rank) &&
           !rendezvous_.has_released(segment.key, rank);
  });
  if (is_in_use) return false;
  for (const int rank : segment.members) rendezvous_.forget(segment.key, rank);
  if (!segment.id) return true;
  device_.release(*segment.id);
  ids_.give_back(*segment.id);
  return true;
}

}  // namespace tnt::comm
