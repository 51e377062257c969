#include "tnt/comm/communicator/wait.hpp"

#include <algorithm>

#include "tnt/comm/base/forked_child.hpp"
#include "tnt/comm/communicator/creation_watch.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/stall_watch.hpp"

namespace tnt::comm {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(100);

}  // namespace

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
  StallWatch stall(engine, group.stalls(), operation, count, start, group.stall_report_s());
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
    // broken, except that a step may be under way at this moment.
    if (abort_state.is_broken()) {
      engine.while_paused([] {});
      if (!completion.has_reached(count)) abort_state.rethrow_if_broken();
    }
    stall.look();
    if (seconds_since(start) > group.stall_report_s()) {
      refuse_creations_by_awaited(engine, operation, abort_state, count);
    }
    const InterruptCheck& check =
        check_interrupt ? check_interrupt : interrupt_check_of_this_thread();
    if (!check) continue;
    try {
      check();
    } catch (...) {
      engine.while_paused([&] {
        if (!completion.has_reached(count)) operation.abandon("the wait was interrupted");
      });
      throw;
    }
  }
  completion.rethrow_unless_completed(count);
}

}  // namespace tnt::comm
