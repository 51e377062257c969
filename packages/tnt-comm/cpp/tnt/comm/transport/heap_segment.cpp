#include "tnt/comm/transport/heap_segment.hpp"

#include <cstring>
#include <new>

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

HeapSegment::HeapSegment(std::size_t num_bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = round_up(num_bytes + 1, kAlignment);  // never zero
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), 0, rounded);
}

void HeapSegment::put(int, std::size_t to, std::size_t from, std::size_t num_bytes) {
  if (num_bytes > 0) std::memmove(memory_.get() + to, memory_.get() + from, num_bytes);
}

}  // namespace tnt::comm
