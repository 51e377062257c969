#pragma once

#include <cstddef>

namespace tnt::comm {

/// memcpy() whose destination does not go through this core's caches, where
/// the processor can do that. For large copies that another core reads next.
/// Later writes are seen after it, as after a memcpy().
void stream_copy(void* dst, const void* src, std::size_t num_bytes);

}  // namespace tnt::comm
