#include "tnt/comm/transport/rma/rma_transport.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/sync.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/base/thread.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"

namespace tnt::comm {

namespace {

constexpr auto kPollInterval = std::chrono::microseconds(50);
constexpr double kSpoiltQueueS = 1.0;

}  // namespace

RmaSegment::RmaSegment(std::shared_ptr<RmaCore> core, const SegmentRequest& request, int member,
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

RmaSegment::~RmaSegment() {
  if (is_forked_child()) return;  // the parent has it
  core_->retirement().add({key_, part_.own_id, queue_.load(), members_});
}

std::size_t RmaSegment::slot(int sender, NotificationId id) const {
  return senders_ == Senders::one ? id : static_cast<std::size_t>(sender) * num_notifications_ + id;
}

// A spoilt queue is left as soon as what was sent through it is out, so that
// nothing overtakes it.
int RmaSegment::queue() {
  int current = queue_.load(std::memory_order_relaxed);
  if (!core_->queues().is_spoilt(current)) return current;
  const Deadline deadline(kSpoiltQueueS);
  while (core_->device().num_queued(current) > 0 && !deadline.is_over()) {
    core_->device().drain(current);
    std::this_thread::sleep_for(kPollInterval);
  }
  current = core_->queues().assign();
  queue_.store(current, std::memory_order_relaxed);
  return current;
}

bool RmaSegment::has_room(int member, std::size_t num_messages) {
  // Messages to a rank that is gone take no room.
  return member == rank_ || !core_->peers().is_reachable(world_rank(member)) ||
         core_->queues().has_room(queue(), num_messages);
}

void RmaSegment::wait_for_room(int member) {
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

void RmaSegment::put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  if (member == rank_) {
    std::memmove(part_.memory + to, part_.memory + from, num_bytes);
    return;
  }
  RmaWrite request;
  request.from_segment = part_.own_id;
  request.rank = world_rank(member);
  request.to_segment = part_.ids[static_cast<std::size_t>(member)];
  for (std::size_t done = 0; done < num_bytes; done += request.num_bytes) {
    request.from = from + done;
    request.to = to + done;
    request.num_bytes = std::min(num_bytes - done, RmaDevice::kMaxWriteBytes);
    wait_for_room(member);
    if (!core_->peers().is_reachable(request.rank)) return;
    core_->device().write(request, queue());
  }
}

void RmaSegment::notify(int member, NotificationId id, std::uint64_t value) {
  if (member == rank_) {
    newest_[slot(rank_, id)].store(value, std::memory_order_release);
    return;
  }
  wait_for_room(member);
  if (!core_->peers().is_reachable(world_rank(member))) return;
  core_->device().notify(world_rank(member), part_.ids[static_cast<std::size_t>(member)],
                         slot(rank_, id), word_of_counter(value), queue());
}

std::uint64_t RmaSegment::poll(int sender, NotificationId id) const {
  const std::size_t index = slot(sender, id);
  Counter& newest = newest_[index];
  std::uint64_t known = newest.load(std::memory_order_acquire);
  const std::uint32_t word = core_->device().take_notification(part_.own_id, index);
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

namespace {

/// One creation in progress, on this rank.
class Creation {
 public:
  Creation(std::shared_ptr<RmaCore> core, const SegmentRequest& request, const Deadline& deadline)
      : core_(std::move(core)), request_(request), deadline_(deadline) {
    terms_.num_bytes = static_cast<std::int64_t>(request.num_bytes);
    terms_.num_notifications = static_cast<std::int64_t>(request.num_notifications);
    terms_.num_members = static_cast<std::int64_t>(request.members.size());
    others_ = request.members;
    std::erase(others_, core_->rank());
  }

  std::unique_ptr<Segment> run() {
    try {
      return create();
    } catch (...) {
      give_up();
      throw;
    }
  }

 private:
  std::unique_ptr<Segment> create() {
    require_enough_notifications();
    meet();
    RmaSegment::Part part = allocate();
    introduce(part.own_id);
    tell_all(ready_message(request_.key, part.own_id));
    part.ids = gather_ids(part.own_id);
    const auto self = std::find(request_.members.begin(), request_.members.end(), core_->rank());
    return std::make_unique<RmaSegment>(
        core_, request_, static_cast<int>(self - request_.members.begin()), std::move(part));
  }

  // Members that have come further may write into the part until they know.
  void give_up() {
    core_->retirement().add({request_.key, own_id_, std::nullopt, request_.members});
  }

  void require_enough_notifications() const;
  void meet();
  RmaSegment::Part allocate();
  void introduce(SegmentId id);
  std::vector<SegmentId> gather_ids(SegmentId own_id);
  void tell_all(const ControlMessage& message);

  void wait_for_members(const std::function<bool(int)>& is_missing, const std::string& what) {
    core_->wait_for(others_, is_missing, what, deadline_, request_.look_around);
  }

  std::shared_ptr<RmaCore> core_;
  const SegmentRequest& request_;
  const Deadline& deadline_;
  SegmentTerms terms_;
  std::vector<int> others_;
  std::optional<SegmentId> own_id_;  // when memory is allocated
};

void Creation::require_enough_notifications() const {
  const std::size_t needed = request_.num_counters();
  const std::size_t available = core_->device().num_notifications();
  if (needed <= available) return;
  const std::string of_each = request_.senders == Senders::one
                                  ? ""
                                  : text(" (", request_.num_notifications, " for each of ",
                                         request_.members.size(), " ranks)");
  throw Error(ErrorKind::comm,
              text("rank ", core_->rank(), ": ", request_.title(), " needs ", needed,
                   " notifications", of_each, ", but ", core_->device().name(), " has ", available,
                   " in a segment. Use fewer, larger buckets (TNT_FUSION_THRESHOLD_KB)."));
}

void Creation::tell_all(const ControlMessage& message) {
  for (const int rank : others_) core_->mailbox().send(rank, message);
}

void Creation::meet() {
  tell_all(creating_message(request_.key, terms_));
  Rendezvous& rendezvous = core_->rendezvous();
  wait_for_members([&](int rank) { return !rendezvous.terms_of(request_.key, rank); },
                   text("create ", request_.title(), " together"));
  for (const int rank : others_) {
    if (rendezvous.terms_of(request_.key, rank) == terms_) continue;
    throw Error(ErrorKind::mismatch,
                text("rank ", core_->rank(), " creates ", request_.title(), " with ",
                     terms_.num_bytes, " bytes and ", terms_.num_notifications,
                     " notifications among ", terms_.num_members, " ranks, rank ", rank,
                     " with other numbers: the ranks do not create the same object."));
  }
}

RmaSegment::Part Creation::allocate() {
  const std::optional<SegmentId> id = core_->segment_ids().take();
  if (!id) {
    throw Error(ErrorKind::comm,
                text("rank ", core_->rank(), ": ", request_.title(), " would be segment number ",
                     RmaDevice::kNumSegments + 1, ", but ", core_->device().name(), " has ",
                     RmaDevice::kNumSegments,
                     ". Close reducers and gatherers that are not used any more, or drop groups."));
  }
  try {
    constexpr std::size_t kNeverEmpty = 64;
    std::byte* memory = core_->device().allocate(*id, request_.num_bytes + kNeverEmpty);
    own_id_ = id;
    return {*id, {}, memory};
  } catch (...) {
    core_->segment_ids().give_back(*id);
    throw;
  }
}

void Creation::introduce(SegmentId id) {
  // A call to a rank that is stopped does not return.
  DetachableCall call("tnt-comm-intro", [id, core = core_, others = others_, deadline = deadline_] {
    for (const int rank : others) core->device().introduce(id, rank, deadline);
  });
  try {
    wait_for_members([&](int) { return !call.has_returned(); },
                     text("learn of ", request_.title()));
  } catch (...) {
    if (!call.has_returned()) own_id_.reset();  // it is in use for ever
    throw;
  }
  call.get();
}

std::vector<SegmentId> Creation::gather_ids(SegmentId own_id) {
  Rendezvous& rendezvous = core_->rendezvous();
  wait_for_members([&](int rank) { return !rendezvous.part_of(request_.key, rank); },
                   text("allocate ", request_.title()));
  std::vector<SegmentId> ids;
  for (const int rank : request_.members) {
    ids.push_back(rank == core_->rank() ? own_id : *rendezvous.part_of(request_.key, rank));
  }
  return ids;
}

}  // namespace

std::unique_ptr<Segment> create_rma_segment(const std::shared_ptr<RmaCore>& core,
                                            const SegmentRequest& request,
                                            const Deadline& deadline) {
  return Creation(core, request, deadline).run();
}

}  // namespace tnt::comm
