#include "tnt/comm/transport/rma/gpi2/gpi2_segment.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/fence.hpp"
#include "tnt/comm/base/forked_child.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/transport/rma/gpi2/counter_word.hpp"

namespace tnt::comm {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(50);
constexpr double kSpoiltQueueS = 1.0;

}  // namespace

Gpi2Segment::Gpi2Segment(std::shared_ptr<Gpi2Core> core, const SegmentRequest& request, int member,
                         Part part)
    : core_(std::move(core)),
      key_(request.key),
      title_(request.title()),
      members_(request.members),
      rank_(member),
      senders_(request.senders),
      num_notifications_(request.num_notifications),
      part_(std::move(part)),
      queue_(core_->queues().assign()),
      newest_(request.num_counters()) {}

Gpi2Segment::~Gpi2Segment() {
  if (is_forked_child()) return;  // the parent has it
  core_->retirement().add({key_, part_.own_id, queue_.load(), members_});
}

std::size_t Gpi2Segment::slot(int sender, NotificationId id) const {
  return senders_ == Senders::one ? id : static_cast<std::size_t>(sender) * num_notifications_ + id;
}

// A spoilt queue is left as soon as what was sent through it is out, so that
// nothing overtakes it.
int Gpi2Segment::queue() {
  int current = queue_.load(std::memory_order_relaxed);
  if (!core_->queues().is_spoilt(current)) return current;
  const Deadline deadline(kSpoiltQueueS);
  while (core_->gaspi().num_queued(current) > 0 && !deadline.is_over()) {
    core_->gaspi().drain(current);
    std::this_thread::sleep_for(kPollInterval);
  }
  current = core_->queues().assign();
  queue_.store(current, std::memory_order_relaxed);
  return current;
}

bool Gpi2Segment::has_room(int member, std::size_t num_messages) {
  // Messages to a rank that is gone take no room.
  return member == rank_ || !core_->peers().is_reachable(world_rank(member)) ||
         core_->queues().has_room(queue(), num_messages);
}

void Gpi2Segment::wait_for_room(int member) {
  if (has_room(member, 1)) return;
  const Deadline deadline(core_->limits().timeout_s);
  while (!has_room(member, 1)) {
    if (deadline.is_over()) {
      throw Error(ErrorKind::timeout,
                  text("rank ", core_->rank(), ": nothing could be sent to rank ",
                       world_rank(member), " for ", deadline.timeout_s(), " s."));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void Gpi2Segment::put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  if (member == rank_) {
    std::memmove(part_.memory + to, part_.memory + from, num_bytes);
    return;
  }
  GaspiWrite request;
  request.from_segment = part_.own_id;
  request.rank = world_rank(member);
  request.to_segment = part_.ids[static_cast<std::size_t>(member)];
  for (std::size_t done = 0; done < num_bytes; done += request.num_bytes) {
    request.from = from + done;
    request.to = to + done;
    request.num_bytes = std::min(num_bytes - done, Gaspi::kMaxWriteBytes);
    wait_for_room(member);
    if (!core_->peers().is_reachable(request.rank)) return;
    core_->gaspi().write(request, queue());
  }
}

void Gpi2Segment::notify(int member, NotificationId id, std::uint64_t value) {
  if (member == rank_) {
    newest_[slot(rank_, id)].store(value, std::memory_order_release);
    return;
  }
  wait_for_room(member);
  if (!core_->peers().is_reachable(world_rank(member))) return;
  core_->gaspi().notify(world_rank(member), part_.ids[static_cast<std::size_t>(member)],
                        slot(rank_, id), word_of_counter(value), queue());
}

std::uint64_t Gpi2Segment::poll(int sender, NotificationId id) const {
  const std::size_t index = slot(sender, id);
  Counter& newest = newest_[index];
  std::uint64_t known = newest.load(std::memory_order_acquire);
  const std::uint32_t word = core_->gaspi().take_notification(part_.own_id, index);
  if (word == 0) return known;
  // The library may look at the word with a plain load, which on some processors does not order the
  // loads of what the sender put before: pairs with the order of the network.
  acquire_fence();
  // Another thread may have taken an earlier or a later word at the same time.
  std::uint64_t latest = counter_of_word(word, known);
  while (latest > known && !newest.compare_exchange_weak(known, latest)) {
    latest = counter_of_word(word, known);
  }
  return std::max(latest, known);
}

void Gpi2Segment::flush() {
  const int current = queue();
  const Deadline deadline(core_->limits().timeout_s);
  if (core_->queues().wait_until_idle(current, deadline)) return;
  if (!core_->queues().is_spoilt(current)) {
    throw Error(ErrorKind::timeout,
                text("rank ", core_->rank(), ": ", title_, " could not be sent within ",
                     deadline.timeout_s(), " s."));
  }
  throw Error(ErrorKind::peer_lost,
              text("rank ", core_->rank(), ": a rank was lost while ", title_,
                   " was being sent, so it is not known what has left. See the output of the"
                   " rank that ended first."));
}

}  // namespace tnt::comm
