#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"

namespace tnt::comm {

/// Combines n vectors into one, in the one order that all algorithms share.
///
/// That order is a SumTree. An element's result depends on nothing but the n elements, so any
/// cutting gives the same bits. float16 and bfloat16 are combined as float32 and
/// rounded once at the end. Subnormal numbers are kept on every thread (see GradualUnderflow).
///
/// Works in blocks that stay in the first-level caches. Holds its scratch
/// memory, so an object serves one thread at a time.
class TreeReducer {
 public:
  TreeReducer(DType dtype, ReduceOp op, SumTree tree);

  /// From now on, combines other elements in another way.
  void become(DType dtype, ReduceOp op) {
    dtype_ = dtype;
    op_ = op;
  }

  /// dst[i] = tree over sources[0..n-1][i]. `dst` may be one of the sources. Fewer sources than the
  /// tree has members are combined one after the other.
  void reduce(void* dst, const std::byte* const* sources, std::size_t num_sources,
              std::size_t count);

  /// The same to several places at once. Targets may be sources.
  void reduce_to(std::span<std::byte* const> targets, const std::byte* const* sources,
                 std::size_t num_sources, std::size_t count);

 private:
  void reduce_block(std::span<void* const> dsts, std::size_t num_sources, std::size_t count);
  void reduce_half_block(std::span<void* const> dsts, std::size_t num_sources, std::size_t count);
  std::byte* scratch(std::size_t index) { return scratch_[index].bytes; }

  static constexpr std::size_t kBlockBytes = 8192;
  struct alignas(kCacheLineBytes) Block {
    std::byte bytes[kBlockBytes];
  };

  DType dtype_;
  ReduceOp op_;
  SumTree tree_;
  std::vector<const std::byte*> current_;  // operands of the level at hand
  std::vector<void*> targets_;             // of the block at hand
  std::unique_ptr<Block[]> scratch_;
};

/// UsageError unless `factor` can scale `dtype`: integers and bool only by 0 or 1.
void require_scalable(DType dtype, double factor);

/// dst = factor * src in one pass. A factor of 0 writes zeros whatever the source holds (0 * NaN
/// would be NaN), a factor of 1 copies the bits. 16-bit floats are multiplied as float32 and
/// rounded once. Subnormal numbers are kept on every thread (see GradualUnderflow).
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
