#include "tnt/comm/transport/local/heap_segment.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tnt::comm {

HeapSegment::HeapSegment(std::size_t num_bytes) : num_bytes_(std::max<std::size_t>(num_bytes, 1)) {
  void* memory = ::mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
}

HeapSegment::~HeapSegment() {
  ::munmap(memory_, num_bytes_);
}

void HeapSegment::put(int, std::size_t to, std::size_t from, std::size_t num_bytes) {
  if (num_bytes > 0) std::memmove(memory_ + to, memory_ + from, num_bytes);
}

}  // namespace tnt::comm
