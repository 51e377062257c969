#include "tnt/comm/group/wait.hpp"

#include <algorithm>

namespace tnt::comm {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(100);

}  // namespace

void wait_for(Engine& engine, CollectiveOperation& operation, const Health& health,
              std::uint32_t count, double timeout_s, const InterruptCheck& check_interrupt) {
  const Completion& completion = operation.completion();
  if (completion.has_reached(count)) return completion.rethrow_unless_completed(count);
  const ObservedWait observed(operation.probe());
  const Deadline deadline(timeout_s);
  while (!engine.wait(completion, count, std::min(deadline.end(), Clock::now() + kLookInterval))) {
    if (deadline.is_over()) {
      engine.while_paused([&] {
        if (!completion.has_reached(count)) operation.expire(timeout_s);
      });
      break;
    }
    // An operation that was never posted is not in the engine, which therefore
    // cannot fail it. One that is there does nothing any more once the group is
    // broken, except that a step may be under way at this moment.
    if (health.is_broken()) {
      engine.while_paused([] {});
      if (!completion.has_reached(count)) health.rethrow_if_broken();
    }
    if (!check_interrupt) continue;
    try {
      check_interrupt();
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
