#pragma once

#include <cstddef>

namespace tnt::comm {

/// Of so many bytes, what is written first has left the caches when the last is
/// written: from here on, writing past them costs nothing.
constexpr std::size_t kBeyondCachesBytes = 32 * 1024 * 1024;

/// memcpy() whose destination does not go through this core's caches, where
/// the processor can do that. For large copies that another core reads next.
/// Later writes are seen after it, as after a memcpy().
void stream_copy(void* dst, const void* src, std::size_t num_bytes);

}  // namespace tnt::comm
