#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tnt::comm {

/// Where the progress thread of a rank sleeps, and what others ring to wake
/// it. Ringing without a sleeper costs one atomic addition and no system call.
class Doorbell {
 public:
  virtual ~Doorbell() = default;

  /// Number of rings so far. Read it *before* looking for work, then hand it
  /// to wait(): a ring in between is never lost.
  virtual std::uint32_t num_rings() const = 0;

  /// Sleeps until num_rings() differs from `seen`, at most `timeout`.
  virtual void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) = 0;

  virtual void ring() = 0;

  /// Between these two calls some thread of this rank polls for work anyway,
  /// so that rings need not wake the sleeper. Whoever stops polling while work
  /// is left rings once himself.
  virtual void begin_polling() = 0;
  virtual void end_polling() = 0;
};

/// The words of a doorbell; may lie in memory shared between processes.
struct alignas(64) DoorbellWords {
  std::atomic<std::uint32_t> num_rings{0};
  std::atomic<std::uint32_t> num_sleepers{0};
  std::atomic<std::uint32_t> num_pollers{0};
};

/// Rings a doorbell of which only the words are known (a peer's).
void ring(DoorbellWords& words);

/// Doorbell over words that live elsewhere; the futex sleeps on `num_rings`.
class FutexDoorbell final : public Doorbell {
 public:
  explicit FutexDoorbell(DoorbellWords& words) : words_(words) {}

  std::uint32_t num_rings() const override { return words_.num_rings.load(); }
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  void ring() override { comm::ring(words_); }
  void begin_polling() override { words_.num_pollers.fetch_add(1); }
  void end_polling() override { words_.num_pollers.fetch_sub(1); }

 private:
  DoorbellWords& words_;
};

}  // namespace tnt::comm
