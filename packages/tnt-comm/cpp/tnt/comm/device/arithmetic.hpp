#pragma once

#include <cstdint>

// Additions, products and roundings of the kernels for GPUs, which have the bits of those of
// kernel/. Compiled as CUDA, and as C++ by tests.
//
// Numbers are held as their bits, since processors and GPUs differ in what they do with a NaN: a
// GPU has one only, a processor keeps the first that comes and makes it quiet. So the kernels
// compute without regard for NaNs, and once more if the result is one.

#if defined(__CUDACC__)
#define TNT_HOST_DEVICE __host__ __device__
#else
#define TNT_HOST_DEVICE
#endif

namespace tnt::comm::device {

/// float32 or float64, by its bits.
template <typename Bits>
struct Ieee;
template <>
struct Ieee<std::uint32_t> {
  using Float = float;
  static constexpr std::uint32_t kQuiet = 0x00400000U;
};
template <>
struct Ieee<std::uint64_t> {
  using Float = double;
  static constexpr std::uint64_t kQuiet = 0x0008000000000000U;
};

template <typename Bits>
TNT_HOST_DEVICE inline typename Ieee<Bits>::Float float_of(Bits bits) {
  return __builtin_bit_cast(typename Ieee<Bits>::Float, bits);
}

template <typename Bits, typename Float>
TNT_HOST_DEVICE inline Bits bits_of(Float value) {
  return __builtin_bit_cast(Bits, value);
}

template <typename Bits>
TNT_HOST_DEVICE inline bool is_nan(Bits bits) {
  return float_of(bits) != float_of(bits);
}

/// What processors give for an operation on `a` and `b` that gives a NaN; `invalid` is what they
/// give if neither is one.
template <typename Bits>
TNT_HOST_DEVICE inline Bits nan_of(Bits a, Bits b, Bits invalid) {
  if (is_nan(a)) return a | Ieee<Bits>::kQuiet;
  if (is_nan(b)) return b | Ieee<Bits>::kQuiet;
  return invalid;
}

template <typename Bits>
TNT_HOST_DEVICE inline Bits add(Bits a, Bits b, Bits invalid) {
  const Bits sum = bits_of<Bits>(float_of(a) + float_of(b));
  return is_nan(sum) ? nan_of(a, b, invalid) : sum;
}

template <typename Bits>
TNT_HOST_DEVICE inline Bits multiply(Bits a, Bits b, Bits invalid) {
  const Bits product = bits_of<Bits>(float_of(a) * float_of(b));
  return is_nan(product) ? nan_of(a, b, invalid) : product;
}

// Element types: how they are stored, and the wider bits in which they are computed.

struct Float32 {
  using Stored = std::uint32_t;
  using Wide = std::uint32_t;
  TNT_HOST_DEVICE static Wide widen(Stored bits) { return bits; }
  TNT_HOST_DEVICE static Stored narrow(Wide bits) { return bits; }
};

struct Float64 {
  using Stored = std::uint64_t;
  using Wide = std::uint64_t;
  TNT_HOST_DEVICE static Wide widen(Stored bits) { return bits; }
  TNT_HOST_DEVICE static Stored narrow(Wide bits) { return bits; }
};

/// 1 sign, 5 exponent (bias 15), 10 fraction bits. A NaN becomes quiet both ways.
struct Float16 {
  using Stored = std::uint16_t;
  using Wide = std::uint32_t;

  TNT_HOST_DEVICE static Wide widen(Stored bits) {
    const Wide magnitude = bits & 0x7fffU;
    // With exponent and fraction in place the exponent is biased by 15 instead of 127, which a
    // factor corrects, of subnormal numbers too. Of infinity and NaN the largest stays the largest.
    const Wide number = bits_of<Wide>(float_of(magnitude << 13) * 0x1p112F);
    const Wide special = magnitude >= 0x7c00U ? 0x7f800000U : 0;
    const Wide quiet = magnitude > 0x7c00U ? Ieee<Wide>::kQuiet : 0;
    return (static_cast<Wide>(bits & 0x8000U) << 16) | number | special | quiet;
  }

  /// Rounds to nearest, ties to even.
  TNT_HOST_DEVICE static Stored narrow(Wide bits) {
    const Wide magnitude = bits & 0x7fffffffU;
    constexpr Wide kLargest = 0x477ff000U;   // 65520 and more round to infinity
    constexpr Wide kSmallest = 0x38800000U;  // 2^-14, of the normal numbers
    const Wide bounded = magnitude < kLargest ? magnitude : kLargest;
    const Wide power = bounded & 0x7f800000U;
    const Wide unit = power > kSmallest ? power : kSmallest;
    // Adding 2^13 of it leaves 10 fraction bits; the adder does the rounding.
    const Wide aligner = unit + (13U << 23);
    const Wide fraction = bits_of<Wide>(float_of(bounded) + float_of(aligner)) - aligner;
    // The fraction of a normal number has the leading 1, which counts one exponent.
    const Wide number = fraction + (unit >> 13) - ((127U - 15U + 1U) << 10);
    const Wide quiet = magnitude > 0x7f800000U ? 0x0200U | ((magnitude >> 13) & 0x03ffU) : 0;
    return static_cast<Stored>(((bits >> 16) & 0x8000U) | number | quiet);
  }
};

/// The upper half of a float32. A NaN becomes quiet when it is narrowed only.
struct Bfloat16 {
  using Stored = std::uint16_t;
  using Wide = std::uint32_t;

  TNT_HOST_DEVICE static Wide widen(Stored bits) { return static_cast<Wide>(bits) << 16; }

  /// Rounds to nearest, ties to even.
  TNT_HOST_DEVICE static Stored narrow(Wide bits) {
    const Wide rounded =
        is_nan(bits) ? bits | Ieee<Wide>::kQuiet : bits + 0x7fffU + ((bits >> 16) & 1U);
    return static_cast<Stored>(rounded >> 16);
  }
};

}  // namespace tnt::comm::device
