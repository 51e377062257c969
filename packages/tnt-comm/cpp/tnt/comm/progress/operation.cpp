#include "tnt/comm/progress/operation.hpp"

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

// Shifting out the error bit makes the difference wrap at 2^31, and its sign
// tell which of two nearby counts is the older one.
bool is_at_least(std::uint32_t word, std::uint32_t count) {
  return static_cast<std::int32_t>((word << 1) - (count << 1)) >= 0;
}

}  // namespace

bool Completion::has_reached(std::uint32_t count) const {
  const std::uint32_t word = word_.load(std::memory_order_acquire);
  return (word & kFailed) != 0 || is_at_least(word, count);
}

bool Completion::wait_until(std::uint32_t count, Clock::time_point end) const {
  while (true) {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & kFailed) != 0 || is_at_least(word, count)) return true;
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    num_sleepers_.fetch_add(1);
    futex_wait(word_, word, left);
    num_sleepers_.fetch_sub(1);
  }
}

void Completion::rethrow_unless_completed(std::uint32_t count) const {
  const std::uint32_t word = word_.load(std::memory_order_acquire);
  if ((word & kFailed) != 0 && !is_at_least(word, count)) error_->raise();
}

void Completion::complete() {
  // A plain addition would carry into the error bit after 2^31 steps.
  std::uint32_t word = word_.load(std::memory_order_relaxed);
  while (!word_.compare_exchange_weak(word, (word & kFailed) | ((word + 1) & ~kFailed))) {
  }
  wake();
}

void Completion::fail(const Error& error) {
  if ((word_.load(std::memory_order_acquire) & kFailed) != 0) return;
  error_ = error;
  word_.fetch_or(kFailed);
  wake();
}

// Mostly nobody sleeps: who waits helps first. Who is counted too late for this look finds the new
// word.
void Completion::wake() {
  if (num_sleepers_.load() != 0) futex_wake_all(word_);
}

}  // namespace tnt::comm
