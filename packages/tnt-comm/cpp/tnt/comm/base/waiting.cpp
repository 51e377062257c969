#include "tnt/comm/base/waiting.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <ctime>
#include <thread>
#include <utility>

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

void poll_until(const PolledWait& wait, const std::function<bool()>& is_reached) {
  const auto start = Clock::now();
  bool has_warned = false;
  while (!is_reached()) {
    check_interrupt();
    if (wait.deadline.is_over()) {
      throw Error(ErrorKind::timeout,
                  text("rank ", wait.rank, ": ", wait.complaint(wait.deadline.timeout_s()), " ",
                       wait.remedy));
    }
    const double waited_s = seconds_since(start);
    if (!has_warned && waited_s > wait.stall_report_s) {
      log_warning(wait.rank,
                  text(wait.complaint(std::round(waited_s * 10) / 10), " ", wait.remedy));
      has_warned = true;
    }
    std::this_thread::sleep_for(wait.interval);
  }
}

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel compares the bare 32-bit word");

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout) {
  const auto bounded = std::max(timeout, std::chrono::nanoseconds::zero());
  const timespec relative{.tv_sec = static_cast<time_t>(bounded.count() / 1'000'000'000),
                          .tv_nsec = static_cast<long>(bounded.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Of a peer that writes and then looks for listeners, and a rank that listens and then looks for
// what was written, at least one must see the other. What is written is no word of the doorbell,
// and is stored and loaded with weaker orders; so each side has a full_fence() between its two
// accesses: the peer before ring_if_heard(), the rank in begin_listening(). A sequentially
// consistent addition alone is enough on x86 only; on aarch64 a later load may come before its
// store. Likewise the fence in end_polling(), before the ring of the one who stops polling, pairs
// with that of a peer that did not ring because somebody polled. Rings and sleepers are words of
// the doorbell on both sides, so their sequentially consistent operations are enough.

void Doorbell::ring_if_heard() {
  if (num_listeners.load() != 0 && num_pollers.load() == 0) ring();
}

void Doorbell::ring() {
  num_rings.fetch_add(1);
  if (num_sleepers.load() != 0) futex_wake_all(num_rings);
}

void Doorbell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  num_sleepers.fetch_add(1);
  if (num_rings.load() == seen) futex_wait(num_rings, seen, timeout);
  num_sleepers.fetch_sub(1);
}

}  // namespace tnt::comm
