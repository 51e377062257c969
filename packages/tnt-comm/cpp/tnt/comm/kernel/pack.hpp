#pragma once

#include <cstddef>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

/// UsageError unless `factor` can scale `dtype`: integers and bool only by 0
/// or 1.
void require_scalable(DType dtype, double factor);

/// dst = factor * src in one pass. A factor of 0 writes zeros whatever the
/// source holds (0 * NaN would be NaN), a factor of 1 copies the bits.
/// 16-bit floats are multiplied as float32 and rounded once. Subnormal numbers
/// are kept on every thread (see GradualUnderflow).
void pack_scaled(void* dst, const void* src, std::size_t count, DType dtype, double factor);

/// dst = src * factor as above, for float32 that become float16 or bfloat16:
/// the product is formed in float32 and rounded to nearest, ties to even.
void pack_narrowed(void* dst, const void* src, std::size_t count, DType narrow, double factor);

/// The way back, which is exact.
void unpack_widened(void* dst, const void* src, std::size_t count, DType narrow);

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
