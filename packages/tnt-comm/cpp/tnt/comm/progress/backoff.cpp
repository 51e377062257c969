#include "tnt/comm/progress/backoff.hpp"

#include <sched.h>

namespace tnt::comm {
namespace {

// Reading the clock takes as long as some looks.
constexpr int kLooksPerClock = 16;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

bool Backoff::wait_a_moment() {
  if (is_over_) return false;
  if (!is_waiting_) {
    is_waiting_ = true;
    num_looks_ = 0;
    start_ = Clock::now();
  }
  const bool may_spin = settings_.spin_time.count() > 0;
  if (may_spin && ++num_looks_ % kLooksPerClock != 0) {
    pause_briefly();
    return true;
  }
  const auto waited = Clock::now() - start_;
  if (waited < settings_.spin_time) {
    pause_briefly();
    return true;
  }
  is_over_ = waited >= settings_.spin_time + settings_.yield_time;
  if (!is_over_) ::sched_yield();
  return !is_over_;
}

}  // namespace tnt::comm
