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
  const timespec relative{.tv_sec = static_cast<time_t>(bounded.count() / 1'000'000'000),
                          .tv_nsec = static_cast<long>(bounded.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Of a peer that writes and then looks for listeners, and a rank that listens
// and then looks for what was written, at least one must see the other. What is
// written is no word of the doorbell, and is stored and loaded with weaker
// orders; so each side has a full_fence() between its two accesses: the peer
// before ring_if_heard(), the rank in begin_listening(). A sequentially
// consistent addition alone is enough on x86 only; on aarch64 a later load may
// come before its store. Likewise the fence in end_polling(), before the ring of
// the one who stops polling, pairs with that of a peer that did not ring because
// somebody polled. Rings and sleepers are words of the doorbell on both sides,
// so their sequentially consistent operations are enough.

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
