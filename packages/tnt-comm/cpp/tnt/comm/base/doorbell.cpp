#include "tnt/comm/base/doorbell.hpp"

#include "tnt/comm/base/futex.hpp"

namespace tnt::comm {

// Both sides use sequentially consistent operations: either the ringer sees
// the sleeper, or the sleeper sees the ring. Weaker orders allow neither.

void ring(DoorbellWords& words) {
  words.num_rings.fetch_add(1);
  if (words.num_sleepers.load() != 0 && words.num_pollers.load() == 0) {
    futex_wake_all(words.num_rings);
  }
}

void FutexDoorbell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  words_.num_sleepers.fetch_add(1);
  if (words_.num_rings.load() == seen) futex_wait(words_.num_rings, seen, timeout);
  words_.num_sleepers.fetch_sub(1);
}

}  // namespace tnt::comm
