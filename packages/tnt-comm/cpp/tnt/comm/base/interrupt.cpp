#include "tnt/comm/base/interrupt.hpp"

#include <utility>

#include "tnt/comm/base/deadline.hpp"

namespace tnt::comm {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(50);

thread_local InterruptCheck check_of_this_thread;
thread_local Clock::time_point next_check;

}  // namespace

InterruptScope::InterruptScope(InterruptCheck check)
    : before_(std::exchange(check_of_this_thread, std::move(check))) {}

InterruptScope::~InterruptScope() {
  check_of_this_thread = std::move(before_);
}

const InterruptCheck& interrupt_check_of_this_thread() {
  return check_of_this_thread;
}

void check_interrupt() {
  if (!check_of_this_thread) return;
  const Clock::time_point now = Clock::now();
  if (now < next_check) return;
  next_check = now + kInterval;
  check_of_this_thread();
}

}  // namespace tnt::comm
