#include "tnt/comm/communicator/wait.hpp"

#include <algorithm>
#include <cmath>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(100);

/// Reports one thread's wait for an operation when it stalls: when nothing has come of it for
/// `stall_report_s` since the thread began to wait. Once, unless it goes on and stalls again; not
/// at all while it is part of a stall that is known (see Stalls).
///
/// What this rank does before it waits is no stall, however long the others
/// have been waited for by the operation, which goes on in the background.
class StallWatch {
 public:
  StallWatch(const Group& group, const CollectiveOperation& operation, std::uint32_t count,
             Clock::time_point start)
      : group_(group), operation_(operation), count_(count), start_(start) {}
  ~StallWatch() {
    if (is_reported_) stalls_.end(this);
  }
  StallWatch(StallWatch&&) = delete;

  /// To be called several times per second.
  void look() {
    if (seconds_since(start_) < group_.stall_report_s() && stalls_.empty()) return;
    group_.engine().while_paused([this] {
      if (!operation_.completion().has_reached(count_)) look_while_paused();
    });
  }

 private:
  void look_while_paused() {
    // All operations of an engine are collective ones.
    const auto& first =
        static_cast<const CollectiveOperation&>(group_.engine().first_before(operation_));
    if (first.last_progress() > start_) begin_anew(first.last_progress());
    std::vector<int> ranks = first.awaited_ranks();
    if (is_reported_) return stalls_.set(this, std::move(ranks));
    if (stalls_.cover(this, ranks)) return begin_anew(Clock::now());
    const double waited_s = seconds_since(start_);
    if (waited_s < group_.stall_report_s()) return;
    is_reported_ = true;
    stalls_.set(this, std::move(ranks));
    first.report_wait(std::round(waited_s * 10) / 10);
  }

  void begin_anew(Clock::time_point start) {
    start_ = start;
    if (is_reported_) stalls_.end(this);
    is_reported_ = false;
  }

  const Group& group_;
  Stalls& stalls_ = group_.runtime().stalls();
  const CollectiveOperation& operation_;
  std::uint32_t count_;
  Clock::time_point start_;
  bool is_reported_ = false;
};

// Ends an operation, which this thread has waited for for long, if a rank that
// it waits for creates a group meanwhile, and waits for this rank in turn.
void refuse_creations_by_awaited(const Group& group, CollectiveOperation& operation,
                                 std::uint32_t count) {
  const AbortState& abort_state = *group.abort_state();
  Rendezvous& rendezvous = *abort_state.rendezvous();
  group.engine().while_paused([&] {
    if (operation.completion().has_reached(count)) return;
    for (const int member : operation.awaited_members()) {
      const int rank = abort_state.world_rank_of(member);
      const auto notice = rendezvous.awaited_by(rank);
      if (!notice) continue;
      const Error error =
          Error(ErrorKind::mismatch, "rank ", rank, " creates ", *notice, ", while rank ",
                abort_state.world_rank(), " waits for it in ", operation.title(), kCreationRule)
              .caused_by(rank);
      operation.break_group(error);  // before a rank ends that is told the other way
      return rendezvous.refuse(error.what());
    }
  });
}

}  // namespace

bool Stalls::cover(Wait wait, const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& reported) {
      const auto& [other, awaited] = reported;
      return other != wait && std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
    });
  });
}

void wait_for(Group& group, CollectiveOperation& operation, std::uint32_t count, double timeout_s,
              const InterruptCheck& check_interrupt) {
  refuse_forked_child();
  Engine& engine = group.engine();
  const AbortState& abort_state = *group.abort_state();
  const Completion& completion = operation.completion();
  if (completion.has_reached(count)) return completion.rethrow_unless_completed(count);
  const Clock::time_point start = Clock::now();
  const ObservedWait observed(operation.probe(), start);
  const Deadline deadline(timeout_s, start);
  StallWatch stall(group, operation, count, start);
  for (Clock::time_point now = start;
       !engine.wait(completion, count, std::min(deadline.end(), now + kLookInterval));
       now = Clock::now()) {
    if (deadline.is_over()) {
      engine.while_paused([&] {
        if (!completion.has_reached(count)) operation.expire(timeout_s);
      });
      break;
    }
    // An operation that was never posted is not in the engine, which therefore
    // cannot fail it. One that is there does nothing any more once the group is
    // broken, except that an advance() may be under way at this moment.
    if (abort_state.is_broken()) {
      engine.while_paused([&] {
        if (!completion.has_reached(count)) operation.release_arrays();
      });
      if (!completion.has_reached(count)) abort_state.rethrow_if_broken();
    }
    stall.look();
    if (seconds_since(start) > group.stall_report_s()) {
      refuse_creations_by_awaited(group, operation, count);
    }
    const InterruptCheck& check =
        check_interrupt ? check_interrupt : interrupt_check_of_this_thread();
    if (!check) continue;
    try {
      check();
    } catch (...) {
      engine.while_paused([&] {
        if (!completion.has_reached(count)) operation.abandon();
      });
      throw;
    }
  }
  completion.rethrow_unless_completed(count);
}

}  // namespace tnt::comm
