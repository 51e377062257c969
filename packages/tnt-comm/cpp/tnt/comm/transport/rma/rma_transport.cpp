#include "tnt/comm/transport/rma/rma_transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(50);
constexpr double kSpoiltQueueS = 1.0;

/// One member's part of a segment, in memory that this rank's device has registered. Others' parts
/// cannot be read; they are written to.
///
/// All puts and notifications go through one queue, so that they arrive in
/// order. What is sent to a rank that is gone is dropped.
class RmaSegment final : public Segment {
 public:
  struct Part {
    SegmentId own_id = 0;
    std::vector<SegmentId> ids;  ///< of all members, each in its own numbering
    std::byte* memory = nullptr;
  };

  RmaSegment(std::shared_ptr<RmaCore> core, const SegmentRequest& request, Part part)
      : core_(std::move(core)),
        request_(request),
        rank_(request.index_of(core_->rank())),
        part_(std::move(part)),
        queue_(core_->queues().assign()),
        newest_(request.num_counters()) {
    request_.look_around = {};
  }
  ~RmaSegment() override {
    if (is_forked_child()) return;  // the parent has it
    core_->retire({request_.key, part_.own_id, queue_.load(), request_.members});
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(request_.members.size()); }
  std::byte* local() override { return part_.memory; }
  const std::byte* peer(int member) const override {
    return member == rank_ ? part_.memory : nullptr;
  }

  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override {
    if (num_bytes == 0) return;
    if (member == rank_) {
      std::memmove(part_.memory + to, part_.memory + from, num_bytes);
      return;
    }
    RmaWrite request;
    request.from_segment = part_.own_id;
    request.rank = world_rank(member);
    request.to_segment = at(part_.ids, member);
    for (std::size_t done = 0; done < num_bytes; done += request.num_bytes) {
      request.from = from + done;
      request.to = to + done;
      request.num_bytes = std::min(num_bytes - done, RmaDevice::kMaxWriteBytes);
      wait_for_room(member);
      if (!core_->peers().is_reachable(request.rank)) return;
      core_->device().write(request, queue());
    }
  }

  bool redirect(std::size_t to, std::size_t num_bytes, std::byte* target) override {
    return core_->device().redirect(part_.own_id, to, num_bytes, target);
  }
  void end_redirect(std::size_t to) override { core_->device().end_redirect(part_.own_id, to); }

  bool has_room(int member, std::size_t num_messages) override {
    // Messages to a rank that is gone take no room.
    return member == rank_ || !core_->peers().is_reachable(world_rank(member)) ||
           core_->queues().has_room(queue(), num_messages);
  }

  void notify(int member, NotificationId id, std::uint64_t value) override {
    notify_by(&RmaDevice::notify, member, id, value);
  }
  void notify_later(int member, NotificationId id, std::uint64_t value) override {
    notify_by(&RmaDevice::notify_later, member, id, value);
  }
  void flush() override { core_->device().flush(queue_.load(std::memory_order_relaxed)); }

  std::uint64_t poll(int sender, NotificationId id) const override {
    const std::size_t index = slot(sender, id);
    Counter& newest = newest_[index];
    std::uint64_t known = newest.load(std::memory_order_acquire);
    const std::uint32_t word = core_->device().take_notification(part_.own_id, index);
    if (word == 0) return known;
    // The library may look at the word with a plain load, which on some processors does not order
    // the loads of what the sender put before: pairs with the order of the network.
    acquire_fence();
    // Another thread may have taken an earlier or a later word at the same time.
    std::uint64_t latest = counter_of_word(word, known);
    while (latest > known && !newest.compare_exchange_weak(known, latest)) {
      latest = counter_of_word(word, known);
    }
    return std::max(latest, known);
  }

 private:
  using Counter = std::atomic<std::uint64_t>;
  using Notify = void (RmaDevice::*)(int, SegmentId, std::size_t, std::uint32_t, int);

  void notify_by(Notify function, int member, NotificationId id, std::uint64_t value) {
    if (member == rank_) {
      newest_[slot(rank_, id)].store(value, std::memory_order_release);
      return;
    }
    wait_for_room(member);
    if (!core_->peers().is_reachable(world_rank(member))) return;
    (core_->device().*function)(world_rank(member), at(part_.ids, member), slot(rank_, id),
                                word_of_counter(value), queue());
  }

  int world_rank(int member) const { return at(request_.members, member); }

  std::size_t slot(int sender, NotificationId id) const {
    const auto run = request_.senders == Senders::one ? 0 : static_cast<std::size_t>(sender);
    return run * request_.num_notifications + id;
  }

  // A spoilt queue is left when what was sent through it is out, so that nothing overtakes it.
  int queue() {
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

  void wait_for_room(int member) {
    if (has_room(member, 1)) return;
    const Deadline deadline(core_->timeout_s());
    while (!has_room(member, 1)) {
      if (deadline.is_over()) {
        throw Error(ErrorKind::timeout, "rank ", core_->rank(), ": nothing could be sent to rank ",
                    world_rank(member), " for ", deadline.timeout_s(), " s.");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  std::shared_ptr<RmaCore> core_;
  SegmentRequest request_;
  int rank_;
  Part part_;
  std::atomic<int> queue_;
  mutable std::vector<Counter> newest_;  // of each notification, by slot
};

/// One creation in progress, on this rank.
class SegmentExchange {
 public:
  SegmentExchange(std::shared_ptr<RmaCore> core, const SegmentRequest& request,
                  const Deadline& deadline)
      : core_(std::move(core)), request_(request), deadline_(deadline), others_(request.members) {
    std::erase(others_, core_->rank());
  }

  std::unique_ptr<Segment> run() {
    try {
      require_enough_notifications();
      meet();
      RmaSegment::Part part = allocate();
      introduce(part.own_id);
      tell_all({ControlKind::ready, request_.key, {part.own_id}});
      part.ids = gather_ids(part.own_id);
      return std::make_unique<RmaSegment>(core_, request_, std::move(part));
    } catch (...) {
      // Members that have come further may write into the part until they know.
      core_->retire({request_.key, own_id_, std::nullopt, request_.members});
      throw;
    }
  }

 private:
  void require_enough_notifications() const {
    const std::size_t needed = request_.num_counters();
    const std::size_t available = core_->device().num_notifications();
    if (needed <= available) return;
    const std::string of_each = request_.senders == Senders::one
                                    ? ""
                                    : text(" (", request_.num_notifications, " for each of ",
                                           request_.members.size(), " ranks)");
    throw Error(ErrorKind::comm, "rank ", core_->rank(), ": ", request_.title(), " needs ", needed,
                " notifications", of_each, ", but ", core_->device().name(), " has ", available,
                " in a segment. Use fewer, larger buckets (TNT_FUSION_THRESHOLD_KB).");
  }

  void meet() {
    const ControlMessage::Numbers terms = {static_cast<std::int64_t>(request_.num_bytes),
                                           static_cast<std::int64_t>(request_.num_notifications),
                                           static_cast<std::int64_t>(request_.members.size())};
    tell_all({ControlKind::creating, request_.key, terms});
    wait_for_members([&](int rank) { return !said_by(rank).terms; },
                     text("create ", request_.title(), " together"));
    for (const int rank : others_) {
      if (said_by(rank).terms == terms) continue;
      throw Error(ErrorKind::mismatch, "rank ", core_->rank(), " creates ", request_.title(),
                  " with ", request_.num_bytes, " bytes and ", request_.num_notifications,
                  " notifications among ", request_.members.size(), " ranks, rank ", rank,
                  " with other numbers: the ranks do not create the same object.");
    }
  }

  RmaSegment::Part allocate() {
    const std::optional<SegmentId> id = core_->segment_ids().take();
    if (!id) {
      throw Error(ErrorKind::comm, "rank ", core_->rank(), ": ", request_.title(),
                  " would be segment number ", RmaDevice::kNumSegments + 1, ", but ",
                  core_->device().name(), " has ", RmaDevice::kNumSegments,
                  ". Close reducers and gatherers that are no longer used, or drop groups.");
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

  void introduce(SegmentId id) {
    // A call to a rank that is stopped does not return.
    DetachableCall call("tnt-comm-intro",
                        [id, core = core_, others = others_, deadline = deadline_] {
                          for (const int rank : others)
                            core->device().introduce(id, rank, deadline);
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

  std::vector<SegmentId> gather_ids(SegmentId own_id) {
    wait_for_members([&](int rank) { return !said_by(rank).part; },
                     text("allocate ", request_.title()));
    std::vector<SegmentId> ids;
    for (const int rank : request_.members) {
      ids.push_back(rank == core_->rank() ? own_id : *said_by(rank).part);
    }
    return ids;
  }

  void tell_all(const ControlMessage& message) {
    for (const int rank : others_) core_->mailbox().send(rank, message);
  }
  void wait_for_members(const std::function<bool(int)>& is_missing, const std::string& what) {
    core_->wait_for(others_, is_missing, what, deadline_, request_.look_around);
  }
  SegmentNotices::Said said_by(int rank) const {
    return core_->segment_notices().said(request_.key, rank);
  }

  std::shared_ptr<RmaCore> core_;
  const SegmentRequest& request_;
  const Deadline& deadline_;
  std::vector<int> others_;
  std::optional<SegmentId> own_id_;  // when memory is allocated
};

}  // namespace

RmaTransport::RmaTransport(std::unique_ptr<RmaDevice> device, const Environment& environment,
                           const Deadline& deadline)
    : core_(std::make_shared<RmaCore>(std::move(device), environment, deadline)),
      ended_(environment.job_id, environment.rank) {}

// Each member says what it is about to create and waits for the others, so that nobody allocates
// alone; then allocates its part, makes it known to the others and tells them that it is there.
//
// PeerLostError, timeout, a mismatch of what the members ask for, or a
// CommError: no memory, no free segment id, too many notifications.
std::unique_ptr<Segment> RmaTransport::create_segment(const SegmentRequest& request,
                                                      const Deadline& deadline) {
  if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
  return SegmentExchange(core_, request, deadline).run();
}

}  // namespace tnt::comm
