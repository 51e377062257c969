#include "tnt/comm/transport/rma/mailbox.hpp"

#include <cstring>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

Mailbox::Mailbox(RmaDevice& device, SegmentId segment, PeerTable& peers, DataQueues& queues,
                 Handler handler)
    : device_(device),
      segment_(segment),
      peers_(peers),
      queues_(queues),
      handler_(std::move(handler)),
      memory_(device.allocate(segment, place(true, device.size(), 0))),  // of all messages
      ranks_(static_cast<std::size_t>(device.size())) {
  const std::size_t num_slots = device_.num_notifications();
  if (slot(device_.size(), Counter::messages) > num_slots) {
    throw Error(ErrorKind::comm,
                text(device_.name(), " can connect at most ", num_slots / kNumCounters,
                     " ranks. Received: TNT_SIZE=", device_.size(), "."));
  }
  device_.introduce_to_all(segment_);
}

void Mailbox::send(int rank, const ControlMessage& message) {
  const std::lock_guard lock(mutex_);
  if (!peers_.is_reachable(rank)) return;
  correspondent(rank).waiting.push_back(message);
  send_to(rank);
}

void Mailbox::exchange() {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < device_.size(); ++rank) {
    if (rank == device_.rank()) continue;
    take_from(rank);
    send_to(rank);
  }
}

void Mailbox::beat(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const int rank : ranks) {
    if (!peers_.is_reachable(rank) || !queues_.has_room(DataQueues::kControl, 1)) continue;
    announce(rank, Counter::beats, 1);
  }
}

bool Mailbox::is_delivered(int rank) const {
  const std::lock_guard lock(mutex_);
  const Correspondent& other = ranks_[static_cast<std::size_t>(rank)];
  return other.waiting.empty() && other.num_taken_by_it == other.num_sent;
}

void Mailbox::take_from(int rank) {
  Correspondent& other = correspondent(rank);
  const std::uint64_t beats = device_.take_notification(segment_, slot(rank, Counter::beats));
  const std::uint64_t num_messages =
      poll(rank, Counter::messages, other.num_received, other.num_received + kDepth);
  if (beats != 0 || num_messages != other.num_received) peers_.heard_from(rank);
  while (other.num_received < num_messages) {
    ControlMessage message;
    std::memcpy(&message, memory_ + place(false, rank, other.num_received), sizeof message);
    ++other.num_received;  // before, so that one that is refused does not come again and again
    handler_(rank, message);
  }
}

void Mailbox::send_to(int rank) {
  Correspondent& other = correspondent(rank);
  other.num_taken_by_it = poll(rank, Counter::taken, other.num_taken_by_it, other.num_sent);
  if (!peers_.is_reachable(rank)) {
    other.waiting.clear();
    return;
  }
  if (other.num_confirmed != other.num_received && queues_.has_room(DataQueues::kControl, 1)) {
    announce(rank, Counter::taken, other.num_received);
    other.num_confirmed = other.num_received;
  }
  while (!other.waiting.empty() && other.num_sent < other.num_taken_by_it + kDepth &&
         queues_.has_room(DataQueues::kControl, 2)) {
    const std::size_t own_place = place(true, rank, other.num_sent);
    std::memcpy(memory_ + own_place, &other.waiting.front(), sizeof(ControlMessage));
    other.waiting.pop_front();
    const RmaWrite request{.from_segment = segment_,
                           .from = own_place,
                           .rank = rank,
                           .to_segment = segment_,
                           .to = place(false, device_.rank(), other.num_sent),
                           .num_bytes = sizeof(ControlMessage)};
    post(rank, [&] { device_.write(request, DataQueues::kControl); });
    announce(rank, Counter::messages, ++other.num_sent);
  }
}

std::size_t Mailbox::slot(int sender, Counter which) const {
  return static_cast<std::size_t>(sender) * kNumCounters + static_cast<std::size_t>(which);
}

void Mailbox::announce(int rank, Counter which, std::uint64_t value) {
  post(rank, [&] {
    device_.notify(rank, segment_, slot(device_.rank(), which), word_of_counter(value),
                   DataQueues::kControl);
  });
}

// The caller may be a thread that has nobody to tell.
template <typename Function>
void Mailbox::post(int rank, Function&& function) {
  try {
    function();
  } catch (const Error&) {
    peers_.lost(rank);
  }
}

// A count beyond `most` would make this rank read or send what is not there.
std::uint64_t Mailbox::poll(int sender, Counter which, std::uint64_t newest, std::uint64_t most) {
  const std::uint32_t word = device_.take_notification(segment_, slot(sender, which));
  const std::uint64_t count = word == 0 ? newest : counter_of_word(word, newest);
  if (count <= most) return count;
  throw Error(
      ErrorKind::comm,
      text("rank ", sender, " counts ", count, " control messages where at most ", most,
           " can have been sent: what the network delivers is not what that rank has sent."));
}

// Incoming places of all ranks, then outgoing ones.
std::size_t Mailbox::place(bool is_outgoing, int rank, std::uint64_t index) const {
  const auto block = static_cast<std::size_t>(is_outgoing ? device_.size() + rank : rank);
  return (block * kDepth + index % kDepth) * sizeof(ControlMessage);
}

}  // namespace tnt::comm
