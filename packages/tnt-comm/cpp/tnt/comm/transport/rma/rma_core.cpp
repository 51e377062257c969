#include "tnt/comm/transport/rma/rma_core.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kTickInterval = milliseconds(20);
constexpr auto kBeatInterval = milliseconds(250);
constexpr auto kWaitInterval = microseconds(300);

// A rank that is stopped holds up the end of others for at most these.
constexpr double kLastDataS = 1.0;
constexpr double kLastWordsS = 1.0;

}  // namespace

RmaCore::RmaCore(std::unique_ptr<RmaDevice> device, const Environment& environment,
                 const Deadline& deadline)
    : device_(std::move(device)),
      limits_{environment.timeout_s, environment.stall_report_s},
      peers_(device_->rank(), device_->size()),
      queues_(*device_, [this] { judge_peers(); }),
      locations_(static_cast<std::size_t>(device_->size())) {
  const std::optional<SegmentId> control = segment_ids_.take();  // the same on all ranks: the first
  mailbox_ = std::make_unique<Mailbox>(
      *device_, *control, peers_, queues_,
      [this](int from, const ControlMessage& message) { take(from, message); });
  retirement_ = std::make_unique<Retirement>(queues_, *mailbox_, peers_, rendezvous_, segment_ids_);
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
  {
    const std::lock_guard lock(locations_mutex_);
    locations_[static_cast<std::size_t>(rank())] = location;
  }
  peers_.joined(rank(), location.host, location.pid);
  for (const int other : others()) mailbox_->send(other, hello_of(location));
  wait_for(
      others(), [this](int other) { return is_stranger(other); }, "say where they are", deadline);
  std::vector<RankLocation> locations;
  for (const auto& known : locations_) locations.push_back(*known);
  nodes_ = nodes_of(locations);
  host_watches_.emplace(*device_, peers_, nodes_, limits_.stall_report_s);
}

bool RmaCore::is_stranger(int rank) {
  const std::lock_guard lock(locations_mutex_);
  return !locations_[static_cast<std::size_t>(rank)];
}

std::vector<int> RmaCore::others() const {
  std::vector<int> result;
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) result.push_back(other);
  }
  return result;
}

void RmaCore::take(int from, const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::hello: {
      const RankLocation location = location_in(message);
      peers_.joined(from, location.host, location.pid);
      const std::lock_guard lock(locations_mutex_);
      locations_[static_cast<std::size_t>(from)] = location;
      break;
    }
    case ControlKind::leaving:
      peers_.left(from, static_cast<PeerState>(message.numbers[0]), message.text());
      break;
    default:
      rendezvous_.note(from, message);
  }
}

void RmaCore::tick() {
  const std::unique_lock lock(tick_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // somebody else does it
  beat_if_due();
  mailbox_->exchange();
  queues_.is_idle(DataQueues::kControl);  // frees its slots, and notices failures
  retirement_->advance();
  if (host_watches_) host_watches_->look();
}

void RmaCore::beat_if_due() {
  const Clock::time_point now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + kBeatInterval;
  if (is_engine_alive_.exchange(false, std::memory_order_relaxed)) mailbox_->beat(others());
}

void RmaCore::judge_peers() {
  for (const int rank : device_->failed_ranks()) peers_.lost(rank);
}

void RmaCore::wait_for(const std::vector<int>& ranks, const std::function<bool(int)>& is_missing,
                       const std::string& what, const Deadline& deadline,
                       const std::function<void()>& look_around) {
  std::vector<int> missing;
  const PolledWait wait{.rank = rank(),
                        .deadline = deadline,
                        .stall_report_s = limits_.stall_report_s,
                        .interval = kWaitInterval,
                        .warning =
                            [&](double waited_s) {
                              return text("has waited ", waited_s, " s for ",
                                          names_of_ranks(missing), " to ", what, ".");
                            },
                        .error =
                            [&] {
                              return text(
                                  "rank ", rank(), " waited ", deadline.timeout_s(), " s for ",
                                  names_of_ranks(missing), " to ", what,
                                  ". Every member of the group must create it, in the same order.");
                            }};
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
    throw Error(ErrorKind::peer_lost,
                text("rank ", rank(), " waits for rank ", other, " (host ", status.host, ", pid ",
                     status.pid, ") and others to ", what, ", but it ",
                     status.state == PeerState::vanished ? "cannot be reached" : "has ended",
                     status.reason.empty() ? "" : ": ", status.reason,
                     status.state == PeerState::vanished ? "." : ". See the output of that rank."));
  }
}

void RmaCore::leave(PeerState state, const std::string& reason) {
  // Otherwise others could hear that this rank has left before they have what
  // it did for them last.
  const Deadline data_deadline(kLastDataS);
  for (int queue = 1; queue < queues_.count(); ++queue) {
    queues_.wait_until_idle(queue, data_deadline);
  }
  if (!has_left_.exchange(true)) {
    ControlMessage message;
    message.kind = ControlKind::leaving;
    message.numbers[0] = static_cast<std::int64_t>(state);
    message.set_text(reason);
    for (const int other : others()) mailbox_->send(other, message);
  }
  const auto does_not_know = [this](int other) {
    return peers_.is_reachable(other) && !mailbox_->is_delivered(other);
  };
  const std::vector<int> ranks = others();
  const Deadline deadline(kLastWordsS);
  while (std::any_of(ranks.begin(), ranks.end(), does_not_know) && !deadline.is_over()) {
    tick();
    std::this_thread::sleep_for(kWaitInterval);
  }
}

}  // namespace tnt::comm
