#include "out_of_memory.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local bool is_out_of_memory = false;

}  // namespace

// For the whole program.
void* operator new(std::size_t num_bytes) {
  void* memory = is_out_of_memory ? nullptr : std::malloc(num_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace tnt::comm::tests {

bool fails_without_memory(const std::function<void()>& function) {
  is_out_of_memory = true;
  bool has_failed = false;
  try {
    function();
  } catch (const std::bad_alloc&) {
    has_failed = true;
  }
  is_out_of_memory = false;
  return has_failed;
}

}  // namespace tnt::comm::tests
