#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

inline void fence(std::memory_order order) {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not know fences.
  static std::atomic<int> common{0};
  common.fetch_add(static_cast<int>(order), std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(order);
#endif
}

/// Nothing before is reordered with anything after, not even a store with a
/// later load.
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

/// Sleeps until the word is woken, but not when it no longer holds
/// `expected`, and at most `timeout`. May return early for no reason. The word
/// may lie in memory shared between processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout);

/// Wakes everybody who sleeps on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// Where the progress thread of a rank sleeps, and what others ring to wake
/// it. May lie in memory shared between processes.
struct Doorbell {
  /// Sleeps until num_rings differs from `seen`, at most `timeout`. Read it
  /// *before* looking for work: a ring in between is never lost.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout);

  /// For the threads of this rank: always wakes the sleeper.
  void ring();

  /// For peers: rings if anybody listens. The caller has put a full_fence()
  /// between what he wrote for this rank and this call.
  void ring_if_heard();

  /// Between these two calls peers ring whenever they have done something that
  /// this rank may be waiting for; otherwise they do not, which costs them
  /// nothing. After the first call, look for work once more before wait().
  void begin_listening() {
    num_listeners.fetch_add(1);
    full_fence();
  }
  void end_listening() { num_listeners.fetch_sub(1); }

  /// Between these two calls some thread of this rank polls for work anyway,
  /// so that peers need not ring although somebody listens. Whoever stops
  /// polling while work is left rings once himself.
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
