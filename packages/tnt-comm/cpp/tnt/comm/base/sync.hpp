#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tnt::comm {

/// Nothing before is reordered with anything after, not even a store with a
/// later load.
inline void full_fence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not know fences.
  static std::atomic<int> common{0};
  common.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Nothing after is reordered with a load before.
inline void acquire_fence() {
#if defined(__SANITIZE_THREAD__)
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Nothing before is reordered with a store after.
inline void release_fence() {
#if defined(__SANITIZE_THREAD__)
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Sleeps until the word is woken, but not when it no longer holds
/// `expected`, and at most `timeout`. May return early for no reason. The word
/// may lie in memory shared between processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout);

/// Wakes everybody who sleeps on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace tnt::comm
