#include "tnt/comm/kernel/stream_copy.hpp"

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {

void stream_copy(void* dst, const void* src, std::size_t num_bytes) {
  if (num_bytes > 0) kernels().stream(dst, src, num_bytes);
}

}  // namespace tnt::comm
