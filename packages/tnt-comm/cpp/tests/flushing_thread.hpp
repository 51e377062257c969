#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tnt::comm::tests {

/// Makes the calling thread take subnormal numbers for zeros, as those of TensorFlow's pools do;
/// false where this is not known how to do.
inline bool flush_subnormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
  return true;
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  asm volatile("msr fpcr, %0" : : "r"(value | (1U << 24)));
  return true;
#else
  return false;
#endif
}

/// Whether the calling thread takes subnormal numbers for zeros now.
inline bool flushes_subnormals() {
  volatile float smallest = 1e-44F;
  volatile float twice = smallest + smallest;
  return twice == 0.0F;
}

}  // namespace tnt::comm::tests
