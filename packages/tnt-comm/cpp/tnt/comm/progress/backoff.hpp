#pragma once

#include <sched.h>

#include <chrono>

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

/// How long a thread looks for progress by itself before it sleeps.
struct PollSettings {
  /// Looks again and again. Zero with more ranks than cores: it would keep others from working.
  std::chrono::microseconds spin_time{20};

  /// After that, looks after giving the core to whoever else can use it. Much cheaper than sleeping
  /// where ranks share a core, and next to nothing is taken from a thread that computes.
  std::chrono::microseconds yield_time{100};
};

/// One wait for progress: spin, then yield, then tell the caller to sleep.
class Backoff {
 public:
  explicit Backoff(const PollSettings& settings) : settings_(settings) {}

  /// To be called when a look has found nothing. False if it is time to sleep, and from then on.
  bool wait_a_moment() {
    if (is_over_) return false;
    if (!is_waiting_) {
      is_waiting_ = true;
      num_looks_ = 0;
      start_ = Clock::now();
    }
    // Reading the clock takes as long as some looks.
    const bool may_spin = settings_.spin_time.count() > 0;
    const bool is_spinning = may_spin && ++num_looks_ % kLooksPerClock != 0;
    const auto waited = is_spinning ? Clock::duration() : Clock::now() - start_;
    if (waited < settings_.spin_time) {
      pause_briefly();
      return true;
    }
    is_over_ = waited >= settings_.spin_time + settings_.yield_time;
    if (!is_over_) ::sched_yield();
    return !is_over_;
  }

  /// To be called when a look has found something: the wait begins anew.
  void renew() { is_waiting_ = is_over_ = false; }

 private:
  static constexpr int kLooksPerClock = 16;

  static void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  PollSettings settings_;
  bool is_waiting_ = false;
  bool is_over_ = false;
  int num_looks_ = 0;
  Clock::time_point start_;
};

}  // namespace tnt::comm
