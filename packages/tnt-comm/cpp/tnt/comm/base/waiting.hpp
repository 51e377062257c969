#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  explicit Deadline(double timeout_s, Clock::time_point start = Clock::now())
      : timeout_s_(timeout_s), end_(start + to_duration(timeout_s)) {}

  bool is_over() const { return Clock::now() >= end_; }
  double timeout_s() const { return timeout_s_; }
  Clock::time_point end() const { return end_; }

  static Clock::duration to_duration(double seconds) {
    // A century is far enough and cannot overflow the clock's 64 bits.
    constexpr double kLongest = 100.0 * 365 * 24 * 3600;
    const double bounded = seconds < kLongest ? seconds : kLongest;
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
  }

 private:
  double timeout_s_;
  Clock::time_point end_;
};

/// What the clock shows, in nanoseconds. One clock per host.
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Called several times per second in a wait; throws to end it (Ctrl-C). Empty: nothing interrupts.
using InterruptCheck = std::function<void()>;

/// While it lives, a check is made in all waits of this thread for other ranks that have none of
/// their own: those in which a job is joined and objects are created.
class TNT_COMM_EXPORT InterruptScope {
 public:
  explicit InterruptScope(InterruptCheck check);
  ~InterruptScope();
  InterruptScope(InterruptScope&&) = delete;

 private:
  InterruptCheck before_;
};

/// The check of this thread; empty outside of an InterruptScope.
const InterruptCheck& interrupt_check_of_this_thread();

/// Makes it, at most some times per second. To be called in loops that wait.
void check_interrupt();

/// First report of a wait for ranks to join, since on a busy host they import for long.
constexpr double kStartReportS = 120.0;

/// A wait for other ranks in which this one looks again and again.
struct PolledWait {
  int rank = 0;  ///< this one
  const Deadline& deadline;
  double stall_report_s = 0;
  std::chrono::microseconds interval{500};  ///< between two looks
  /// What has been waited for, for so many seconds: said in a warning and at the deadline, with the
  /// remedy.
  std::function<std::string(double)> complaint;
  std::string remedy;
};

/// Looks until `is_reached`. Warns once of a long wait; throws a timeout error, what
/// Ctrl-C throws, and what `is_reached` throws.
void poll_until(const PolledWait& wait, const std::function<bool()>& is_reached);

inline void fence(std::memory_order order) {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not know fences.
  static std::atomic<int> common{0};
  common.fetch_add(static_cast<int>(order), std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(order);
#endif
}

/// Nothing before is reordered with anything after, not even a store with a later load.
inline void full_fence() {
  fence(std::memory_order_seq_cst);
}

/// Nothing after is reordered with a load before.
inline void acquire_fence() {
  fence(std::memory_order_acquire);
}

/// Nothing before is reordered with a store after.
inline void release_fence() {
  fence(std::memory_order_release);
}

/// Sleeps until the word is woken, but not when it no longer holds `expected`, and at most
/// `timeout`. May return early for no reason. The word may lie in memory shared between processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// Where the progress thread of a rank sleeps, and what others ring to wake
/// it. May lie in memory shared between processes.
struct Doorbell {
  // Of a peer that writes and then looks for listeners, and a rank that listens and then looks for
  // what was written, at least one must see the other. What is written is no word of the doorbell,
  // and is stored and loaded with weaker orders; so each side has a full_fence() between its two
  // accesses: the peer before ring_if_heard(), the rank in begin_listening(). A sequentially
  // consistent addition alone is enough on x86 only; on aarch64 a later load may come before its
  // store. Likewise the fence in end_polling(), before the ring of the one who stops polling, pairs
  // with that of a peer that did not ring because somebody polled. Rings and sleepers are words of
  // the doorbell on both sides, so their sequentially consistent operations are enough.

  /// Sleeps until num_rings differs from `seen`, at most `timeout`. Read it
  /// *before* looking for work: a ring in between is never lost.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
    num_sleepers.fetch_add(1);
    if (num_rings.load() == seen) futex_wait(num_rings, seen, timeout);
    num_sleepers.fetch_sub(1);
  }

  /// For the threads of this rank: always wakes the sleeper.
  void ring() {
    num_rings.fetch_add(1);
    if (num_sleepers.load() != 0) futex_wake_all(num_rings);
  }

  /// For peers: rings if anybody listens. The caller has put a full_fence()
  /// between what he wrote for this rank and this call.
  void ring_if_heard() {
    if (num_listeners.load() != 0 && num_pollers.load() == 0) ring();
  }

  /// Between these two calls peers ring whenever they have done something that
  /// this rank may be waiting for; otherwise they do not, which costs them
  /// nothing. After the first call, look for work once more before wait().
  void begin_listening() {
    num_listeners.fetch_add(1);
    full_fence();
  }
  void end_listening() { num_listeners.fetch_sub(1); }

  /// Between these two calls some thread of this rank polls for work anyway, so that peers need not
  /// ring although somebody listens. Whoever stops polling while work is left rings once himself.
  void begin_polling() { num_pollers.fetch_add(1); }
  void end_polling() {
    num_pollers.fetch_sub(1);
    full_fence();
  }

  alignas(kCacheLineBytes) std::atomic<std::uint32_t> num_rings{0};  // the word of the futex
  std::atomic<std::uint32_t> num_sleepers{0};
  // Read by peers after everything they do, so on a line that changes seldom.
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> num_listeners{0};
  std::atomic<std::uint32_t> num_pollers{0};
};

}  // namespace tnt::comm
