#pragma once

#include <cstddef>

namespace tnt::comm {

/// Whether of so many bytes on each of the ranks of a host, what is written first
/// has left the caches when the last is written: then it costs nothing to write
/// past them. The largest caches are shared by the cores.
constexpr bool is_beyond_caches(std::size_t num_bytes, int num_ranks) {
  constexpr std::size_t kSharedCacheBytes = 64 * 1024 * 1024;
  return num_bytes * static_cast<std::size_t>(num_ranks) >= kSharedCacheBytes;
}

/// memcpy() whose destination does not go through this core's caches, where
/// the processor can do that. For large copies that another core reads next.
/// Later writes are seen after it, as after a memcpy().
void stream_copy(void* dst, const void* src, std::size_t num_bytes);

}  // namespace tnt::comm
