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
constexpr std::chrono::microseconds kLongestInterval{2000};

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
      throw Error(ErrorKind::timeout, "rank ", wait.rank, ": ",
                  wait.complaint(wait.deadline.timeout_s()), " ", wait.remedy);
    }
    const double waited_s = seconds_since(start);
    if (!has_warned && waited_s > wait.stall_report_s) {
      log_warning(wait.rank, wait.complaint(std::round(waited_s * 10) / 10), " ", wait.remedy,
                  " [stall]");
      has_warned = true;
    }
    // A thousandth of the time that has passed already, since some waits take hours.
    const std::chrono::microseconds pause(static_cast<std::int64_t>(waited_s * 1e3));
    std::this_thread::sleep_for(std::clamp(pause, wait.interval, kLongestInterval));
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

}  // namespace tnt::comm
