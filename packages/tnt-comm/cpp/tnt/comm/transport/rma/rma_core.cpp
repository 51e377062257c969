#include "tnt/comm/transport/rma/rma_core.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kTickInterval = milliseconds(20);
constexpr auto kBeatInterval = milliseconds(250);
constexpr auto kWaitInterval = microseconds(300);
constexpr auto kQueueInterval = microseconds(50);

// A rank that is stopped holds up the end of others for at most these.
constexpr double kLastDataS = 1.0;
constexpr double kLastWordsS = 1.0;

}  // namespace

RmaCore::RmaCore(std::unique_ptr<RmaDevice> device, const Environment& environment,
                 const Deadline& deadline)
    : device_(std::move(device)),
      timeout_s_(environment.timeout_s),
      stall_report_s_(environment.stall_report_s),
      peers_(device_->rank(), device_->size()),
      queues_(*device_,
              [this] {
                for (const int rank : device_->failed_ranks()) peers_.lost(rank);
              }),
      locations_(static_cast<std::size_t>(device_->size())),
      mailbox_(*device_, *segment_ids_.take(),  // the same on all ranks: the first
               peers_, queues_,
               [this](int from, const ControlMessage& message) { take(from, message); }) {
  exchange_locations(location_of(environment, device_->name()), deadline);
  thread_ = start_without_signals("tnt-comm-rma", [this] { look_after_everything(); });
}

RmaCore::~RmaCore() {
  is_stopping_.store(true);
  if (thread_.joinable()) thread_.join();
}

// Goes on after an error, since the other ranks must be watched all the same.
void RmaCore::look_after_everything() {
  std::string last_error;
  while (!is_stopping_.load()) {
    try {
      tick();
    } catch (...) {
      const std::string error = Error::current().what();
      if (error != last_error) log_warning(rank(), text(device_->name(), " has failed: ", error));
      last_error = error;
    }
    std::this_thread::sleep_for(kTickInterval);
  }
}

void RmaCore::exchange_locations(const RankLocation& location, const Deadline& deadline) {
  const ControlMessage hello = hello_of(location);
  take(rank(), hello);
  for (const int other : others()) mailbox_.send(other, hello);
  const auto is_stranger = [this](int other) {
    const std::lock_guard lock(locations_mutex_);
    return !locations_[static_cast<std::size_t>(other)];
  };
  wait_for(others(), is_stranger, "say where they are", deadline, [] {}, "See their output.");
  std::vector<RankLocation> locations;
  for (const auto& known : locations_) locations.push_back(*known);
  nodes_ = nodes_of(locations);
  host_watches_.emplace(*device_, peers_, nodes_, stall_report_s_);
}

std::vector<int> RmaCore::others() const {
  std::vector<int> result;
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) result.push_back(other);
  }
  return result;
}

void RmaCore::take(int from, const ControlMessage& message) {
  if (message.kind == ControlKind::leaving) {
    return peers_.left(from, static_cast<PeerState>(message.numbers[0]), message.text());
  }
  if (message.kind != ControlKind::hello) return segment_notices_.note(from, message);
  const RankLocation location = location_in(message);
  peers_.joined(from, location.host, location.pid);
  const std::lock_guard lock(locations_mutex_);
  locations_[static_cast<std::size_t>(from)] = location;
}

void RmaCore::tick() {
  const std::unique_lock lock(tick_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // somebody else does it
  beat_if_due();
  mailbox_.exchange();
  queues_.is_idle(DataQueues::kControl);  // frees its slots, and notices failures
  if (host_watches_) host_watches_->look();
  const std::lock_guard retired_lock(retired_mutex_);
  for (auto segment = retired_.begin(); segment != retired_.end();) {  // one of them may throw
    segment = try_free(*segment) ? retired_.erase(segment) : std::next(segment);
  }
}

void RmaCore::beat_if_due() {
  const Clock::time_point now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + kBeatInterval;
  if (is_engine_alive_.exchange(false, std::memory_order_relaxed)) mailbox_.beat(others());
}

void RmaCore::retire(RetiredSegment segment) {
  const std::lock_guard lock(retired_mutex_);
  retired_.push_back(std::move(segment));
}

bool RmaCore::try_free(RetiredSegment& segment) {
  if (!segment.is_announced) {
    // What this rank has put must have left before others free their parts.
    const auto& queue = segment.queue;
    if (queue && !queues_.is_spoilt(*queue) && !queues_.is_idle(*queue)) return false;
    for (const int member : segment.members) {
      if (member != rank()) mailbox_.send(member, {ControlKind::released, segment.key});
    }
    segment.is_announced = true;
  }
  const auto may_write = [&](int member) {
    return member != rank() && peers_.is_reachable(member) &&
           !segment_notices_.said(segment.key, member).has_released;
  };
  if (std::any_of(segment.members.begin(), segment.members.end(), may_write)) return false;
  for (const int member : segment.members) segment_notices_.forget(segment.key, member);
  const std::optional<SegmentId> id = std::exchange(segment.id, std::nullopt);
  if (!id) return true;
  device_->release(*id);  // if it fails, the id is lost, and not released again
  segment_ids_.give_back(*id);
  return true;
}

void RmaCore::wait_for(const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
                       const std::string& what, const Deadline& deadline,
                       const std::function<void()>& look_around, const char* remedy) {
  std::vector<int> missing;
  const auto complaint = [&](double waited_s) {
    return text("has waited ", waited_s, " s for ", names_of_ranks(missing), " to ", what, ".");
  };
  const PolledWait wait{.rank = rank(),
                        .deadline = deadline,
                        .stall_report_s = stall_report_s_,
                        .interval = kWaitInterval,
                        .complaint = complaint,
                        .remedy = remedy};
  poll_until(wait, [&] {
    beat();  // who waits here is alive, and only beats find out who is not
    tick();
    missing.clear();
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(missing), is_missing);
    if (missing.empty()) return true;
    look_around();
    require_alive(ranks, is_missing, what);
    return false;
  });
}

void RmaCore::require_alive(const std::vector<int>& ranks,
                            const std::function<bool(int)>& is_missing,
                            const std::string& what) const {
  for (const int other : ranks) {
    if (peers_.is_reachable(other)) continue;
    const PeerStatus status = peers_.status_of(other);
    // Who has finished may have done its part before.
    if (status.state == PeerState::finished && !is_missing(other)) continue;
    throw Error(
        ErrorKind::peer_lost,
        text("rank ", rank(), " waits for rank ", other, " (host ", status.host, ", pid ",
             status.pid, ") and others to ", what, ", but it ",
             status.state == PeerState::vanished ? "cannot be reached" : "has ended",
             status.reason.empty() ? "" : ": ", status.reason, full_stop_after(status.reason),
             status.state == PeerState::vanished ? "" : " See the output of that rank."),
        other);
  }
}

void RmaCore::leave(PeerState state, const std::string& reason) {
  // Otherwise others could hear that this rank has left before they have what it did for them last.
  const Deadline data_deadline(kLastDataS);
  for (int queue = 1; queue < queues_.count(); ++queue) {
    while (!queues_.is_idle(queue) && !queues_.is_spoilt(queue) && !data_deadline.is_over()) {
      std::this_thread::sleep_for(kQueueInterval);
    }
  }
  if (!has_left_.exchange(true)) {
    const ControlMessage message(ControlKind::leaving, reason, {static_cast<std::int64_t>(state)});
    for (const int other : others()) mailbox_.send(other, message);
  }
  const auto does_not_know = [this](int other) {
    return peers_.is_reachable(other) && !mailbox_.is_delivered(other);
  };
  const std::vector<int> ranks = others();
  const Deadline deadline(kLastWordsS);
  while (std::any_of(ranks.begin(), ranks.end(), does_not_know) && !deadline.is_over()) {
    tick();
    std::this_thread::sleep_for(kWaitInterval);
  }
}

}  // namespace tnt::comm
