#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

/// The element-wise loops, as compiled for one instruction set.
///
/// The same source is compiled once per instruction set and one table is chosen at run time. All
/// variants give the same bits: the loops contain one rounding per element and the compiler may not
/// contract or reorder them. Only which of two NaNs a sum or product has is the compiler's choice.
/// Whoever calls those that compute holds a GradualUnderflow.
struct KernelTable {
  /// dsts[k][i] = a[i] op b[i]. Each of dsts may be `a` or `b`, otherwise no overlap.
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
  using StreamingCopy = void (*)(void* dst, const void* src, std::size_t num_bytes);

  /// Null where the operation is not defined. 16-bit floats have no entries:
  /// they are widened, combined as float32 and narrowed.
  Combines combine[kNumDTypes][kNumReduceOps];
  Scale scale[kNumDTypes];  ///< null for integers and bool
  // Of DType::float16 and DType::bfloat16.
  Widen widen[2];    ///< to float32, exact
  Narrow narrow[2];  ///< rounds to nearest, ties to even
  ScaleNarrow scale_narrow[2];
  StreamingCopy stream;
};

const KernelTable& baseline_kernels();
const KernelTable& avx2_kernels();

/// The best variant for this processor.
const KernelTable& kernels();

/// While it lives, this thread computes with subnormal numbers as IEEE 754 says
/// (section 7.5, gradual underflow), as numpy does.
///
/// Threads of TensorFlow's pools take subnormal operands and results for zeros; the engine's thread
/// does not. Either may reduce, so without one rule the bits would depend on which is faster.
class GradualUnderflow {
 public:
  GradualUnderflow() : before_(read()) {
    if ((before_ & kFlushes) != 0) write(before_ & ~kFlushes);
  }
  ~GradualUnderflow() {
    if ((before_ & kFlushes) != 0) write(read() | (before_ & kFlushes));
  }
  GradualUnderflow(GradualUnderflow&&) = delete;

 private:
#if defined(__x86_64__)
  using Register = unsigned int;
  static constexpr Register kFlushes = 0x8040;  // MXCSR: flush to zero, denormals are zeros
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kFlushes = (1U << 24) | (1U << 19);  // FPCR: FZ, FZ16
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = unsigned int;
  static constexpr Register kFlushes = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  Register before_;
};

}  // namespace tnt::comm
