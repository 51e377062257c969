#include "tnt/comm/base/doorbell.hpp"

#include "tnt/comm/base/futex.hpp"

namespace tnt::comm {

// All sides use sequentially consistent operations: of a peer that writes and
// then looks for listeners, and a rank that listens and then looks for what
// was written, at least one sees the other. Weaker orders allow neither. The
// same holds for rings and sleepers.

void ring_if_heard(DoorbellWords& words) {
  if (words.num_listeners.load() == 0 || words.num_pollers.load() != 0) return;
  words.num_rings.fetch_add(1);
  if (words.num_sleepers.load() != 0) futex_wake_all(words.num_rings);
}

void FutexDoorbell::ring() {
  words_.num_rings.fetch_add(1);
  if (words_.num_sleepers.load() != 0) futex_wake_all(words_.num_rings);
}

void FutexDoorbell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  words_.num_sleepers.fetch_add(1);
  if (words_.num_rings.load() == seen) futex_wait(words_.num_rings, seen, timeout);
  words_.num_sleepers.fetch_sub(1);
}

}  // namespace tnt::comm
