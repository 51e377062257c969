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

/// Where the progress thread of a rank sleeps, and what others ring to wake
/// it.
class Doorbell {
 public:
  virtual ~Doorbell() = default;

  /// Number of rings so far. Read it *before* looking for work, then hand it
  /// to wait(): a ring in between is never lost.
  virtual std::uint32_t num_rings() const = 0;

  /// Sleeps until num_rings() differs from `seen`, at most `timeout`.
  virtual void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) = 0;

  /// For the threads of this rank: always wakes the sleeper.
  virtual void ring() = 0;

  /// Between these two calls peers ring whenever they have done something that
  /// this rank may be waiting for; otherwise they do not, which costs them
  /// nothing. After the first call, look for work once more before wait().
  virtual void begin_listening() = 0;
  virtual void end_listening() = 0;

  /// Between these two calls some thread of this rank polls for work anyway,
  /// so that peers need not ring although somebody listens. Whoever stops
  /// polling while work is left rings once himself.
  virtual void begin_polling() = 0;
  virtual void end_polling() = 0;
};

/// The words of a doorbell; may lie in memory shared between processes.
struct DoorbellWords {
  alignas(64) std::atomic<std::uint32_t> num_rings{0};
  std::atomic<std::uint32_t> num_sleepers{0};
  // Read by peers after everything they do, so on a line that changes seldom.
  alignas(64) std::atomic<std::uint32_t> num_listeners{0};
  std::atomic<std::uint32_t> num_pollers{0};
};

/// Rings a peer's doorbell if anybody listens there. The caller has put a
/// full_fence() between what he wrote for the peer and this call.
void ring_if_heard(DoorbellWords& words);

/// Doorbell over words that live elsewhere; the futex sleeps on `num_rings`.
class FutexDoorbell final : public Doorbell {
 public:
  explicit FutexDoorbell(DoorbellWords& words) : words_(words) {}

  std::uint32_t num_rings() const override { return words_.num_rings.load(); }
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  void ring() override;
  void begin_listening() override {
    words_.num_listeners.fetch_add(1);
    full_fence();
  }
  void end_listening() override { words_.num_listeners.fetch_sub(1); }
  void begin_polling() override { words_.num_pollers.fetch_add(1); }
  void end_polling() override {
    words_.num_pollers.fetch_sub(1);
    full_fence();
  }

 private:
  DoorbellWords& words_;
};

}  // namespace tnt::comm
