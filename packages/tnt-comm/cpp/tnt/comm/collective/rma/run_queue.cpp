#include "tnt/comm/collective/rma/run_queue.hpp"

#include <limits>
#include <utility>

namespace tnt::comm {

RunQueue::RunQueue(std::shared_ptr<Segment> segment, NotificationId first_id, std::size_t capacity)
    : segment_(std::move(segment)), runs_(capacity, ScheduleRun(*segment_, first_id)) {}

void RunQueue::push(const Schedule& schedule, std::size_t slot, std::uint64_t value) {
  ++num_runs_;
  run(num_runs_ - 1).begin(schedule, slot, value);
}

bool RunQueue::advance(const Combiner& combiner) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  bool has_moved = false;
  std::size_t sendable_rounds = kNone;
  std::size_t awaited_round = kNone;
  for (std::size_t age = 0; age < num_runs_; ++age) {
    ScheduleRun& current = run(age);
    // What an older run still waits for in the same round has not come for this
    // one either. Most runs are in this state, and each look costs cache misses.
    if (current.is_waiting() && current.round() == awaited_round) continue;
    has_moved |= current.advance(sendable_rounds, combiner);
    if (current.is_waiting()) awaited_round = current.round();
    // A finished run has sent everything; blocks may have different numbers of
    // rounds only if the later operation began after the earlier one's end.
    if (!current.is_done()) sendable_rounds = current.num_sent_rounds();
  }
  return has_moved;
}

void RunQueue::pop() {
  oldest_ = (oldest_ + 1) % runs_.size();
  --num_runs_;
}

void RunQueue::append_missing(std::vector<int>& members) const {
  for (std::size_t age = 0; age < num_runs_; ++age) run(age).append_missing(members);
}

}  // namespace tnt::comm
