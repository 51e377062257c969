#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tnt::comm {

/// While it lives, this thread computes with subnormal numbers as IEEE 754 says
/// (section 7.5, gradual underflow), as numpy does.
///
/// Threads of TensorFlow's pools take subnormal operands and results for zeros;
/// the engine's thread does not. Either may reduce, so without one rule the bits
/// would depend on which of them was faster.
class GradualUnderflow {
 public:
  GradualUnderflow() : before_(read()) {
    if ((before_ & kFlushes) != 0) write(before_ & ~kFlushes);
  }
  ~GradualUnderflow() {
    if ((before_ & kFlushes) != 0) write(read() | (before_ & kFlushes));
  }
  GradualUnderflow(const GradualUnderflow&) = delete;
  GradualUnderflow& operator=(const GradualUnderflow&) = delete;

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
