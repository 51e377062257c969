#include "tnt/comm/base/sync.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace tnt::comm {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel compares the bare 32-bit word");

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout) {
  const auto bounded = std::max(timeout, std::chrono::nanoseconds::zero());
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(bounded.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(bounded.count() % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tnt::comm
