#pragma once

#include <cstddef>
#include <cstdint>

#include "tnt/comm/base/dtype.hpp"

namespace tnt::comm {

/// The element-wise loops, as compiled for one instruction set.
///
/// The same source is compiled once per instruction set and one table is
/// chosen at run time. All variants give the same bits: the loops contain one
/// rounding per element and the compiler may not contract or reorder them.
struct KernelTable {
  /// dsts[k][i] = a[i] op b[i]. Each of dsts may be `a` or `b`, otherwise no
  /// overlap.
  using Combine = void (*)(void* const* dsts, const void* a, const void* b, std::size_t count);
  /// The same operation for so many of dsts, from one on.
  static constexpr std::size_t kMaxTargets = 4;
  struct Combines {
    Combine to[kMaxTargets];
  };
  /// dst[i] = factor * src[i]. No overlap.
  using Scale = void (*)(void* dst, const void* src, std::size_t count, double factor);
  using Widen = void (*)(float* dst, const std::uint16_t* src, std::size_t count);
  using Narrow = void (*)(std::uint16_t* dst, const float* src, std::size_t count);
  /// dst[i] = factor * src[i], formed in float32 and then rounded once more.
  using ScaleNarrow = void (*)(std::uint16_t* dst, const float* src, std::size_t count,
                               float factor);

  /// Copies past the caches; see stream_copy().
  using Stream = void (*)(void* dst, const void* src, std::size_t num_bytes);

  /// Null where the operation is not defined. 16-bit floats have no entries:
  /// they are widened, combined as float32 and narrowed.
  Combines combine[kNumDTypes][kNumReduceOps];
  Scale scale[kNumDTypes];  ///< null for integers and bool
  Widen widen[2];           ///< float16, bfloat16 to float32, exact
  Narrow narrow[2];         ///< rounds to nearest, ties to even
  ScaleNarrow scale_narrow[2];
  Stream stream;
};

const KernelTable& baseline_kernels();
const KernelTable& avx2_kernels();

/// The best variant for this processor.
const KernelTable& kernels();

}  // namespace tnt::comm
