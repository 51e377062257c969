// What TensorFlow's stateless draws make of random words, bit for bit: its results depend on the
// order of the words, on the bits that are kept of them, and on the precision of each step.
//
// The numbers of a draw come in groups. A distribution says how many words a group has, and turns
// the words of group g into its numbers: `numbers(words, g)`. Numbers of 16 and 32 bits come in
// fours, those of 64 in twos.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <numbers>
#include <type_traits>

#include "tnt/keras/philox.hpp"

namespace tnt::keras {

/// Numbers of 16 bits as TensorFlow stores them.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

template <typename Number>
constexpr int kGroupSize = sizeof(Number) == 8 ? 2 : 4;

/// The numbers of one group.
template <typename Number>
using Group = std::array<Number, kGroupSize<Number>>;

/// What a real number is computed in before it gets the precision that was asked for.
template <typename Number>
using Computed = std::conditional_t<std::is_same_v<Number, double>, double, float>;

/// Rounds to nearest, ties to even. `number` is finite and no larger than the type allows.
template <typename Number>
Number rounded(Computed<Number> number) {
  return number;
}

template <>
inline Bfloat16 rounded<Bfloat16>(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t is_odd = (bits >> 16) & 1;
  return {static_cast<uint16_t>((bits + 0x7FFF + is_odd) >> 16)};
}

template <>
inline Half rounded<Half>(float number) {
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2**-14
  constexpr uint32_t kExponentShift = (127 - 15) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude < kSmallestNormal) {  // multiples of 2**-24, which the sum counts in its last bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0x7FF))};
  }
  const uint32_t is_odd = (magnitude >> 13) & 1;
  const uint32_t nearest = (magnitude - kExponentShift + 0xFFF + is_odd) >> 13;
  return {static_cast<uint16_t>(sign | nearest)};
}

/// The lowest `num_bits` of a word as a fraction in [0, 1).
template <int num_bits>
float fraction(uint32_t word) {
  constexpr int32_t kOne = 1 << num_bits;
  return static_cast<float>(static_cast<int32_t>(word) & (kOne - 1)) / kOne;
}

/// 52 bits as a fraction in [0, 1).
inline double fraction(uint32_t high, uint32_t low) {
  const int64_t bits = static_cast<int64_t>(high & 0xFFFFF) << 32 | low;
  return static_cast<double>(bits) / static_cast<double>(int64_t{1} << 52);
}

/// Two normally distributed numbers of two uniformly distributed ones (Box and Muller 1958). No
/// step adds to a product: where a compiler fuses the two, it changes no bit here.
template <typename Real>
std::array<Real, 2> box_muller(Real radius_fraction, Real angle_fraction) {
  const Real positive = radius_fraction < Real(1e-7) ? Real(1e-7) : radius_fraction;
  const Real radius = std::sqrt(Real(-2) * std::log(positive));
  const Real angle = static_cast<Real>(2 * std::numbers::pi * angle_fraction);
  Real sine, cosine;
  if constexpr (std::is_same_v<Real, float>) {
    sincosf(angle, &sine, &cosine);
  } else {
    sincos(angle, &sine, &cosine);
  }
  return {sine * radius, cosine * radius};
}

/// How many pairs of normally distributed numbers four words give.
template <typename Real>
constexpr int kNumPairs = std::is_same_v<Real, double> ? 1 : 2;

/// Pair `index` of the normally distributed numbers that four words give.
template <typename Real>
std::array<Real, 2> normal_pair(const Words& words, int index) {
  if constexpr (std::is_same_v<Real, double>) {
    return box_muller(fraction(words[0], words[1]), fraction(words[2], words[3]));
  } else {
    return box_muller(fraction<23>(words[2 * index]), fraction<23>(words[2 * index + 1]));
  }
}

/// Number `index` of the unsigned integers that four words give.
template <std::integral Number>
std::make_unsigned_t<Number> integer(const Words& words, int index) {
  if constexpr (sizeof(Number) == 8) {
    return words[2 * index] | static_cast<uint64_t>(words[2 * index + 1]) << 32;
  } else {
    return words[index];
  }
}

/// Real numbers in [0, 1), as many equidistant ones as the mantissa tells apart.
template <typename Number_>
struct Uniform {
  using Number = Number_;

  Group<Number> numbers(const WordStream& stream, uint64_t group) const {
    const Words words = stream.at(group);
    Group<Number> numbers;
    for (int i = 0; i < kGroupSize<Number>; ++i) numbers[i] = rounded<Number>(number(words, i));
    return numbers;
  }

 private:
  static Computed<Number> number(const Words& words, int i) {
    if constexpr (std::is_same_v<Number, Half>) return fraction<10>(words[i]);
    if constexpr (std::is_same_v<Number, Bfloat16>) return fraction<7>(words[i]);
    if constexpr (std::is_same_v<Number, float>) return fraction<23>(words[i]);
    if constexpr (std::is_same_v<Number, double>) {
      return fraction(words[2 * i], words[2 * i + 1]);
    }
  }
};

/// Real numbers of mean 0 and deviation 1.
template <typename Number_>
struct Normal {
  using Number = Number_;

  Group<Number> numbers(const WordStream& stream, uint64_t group) const {
    using Real = Computed<Number>;
    const Words words = stream.at(group);
    Group<Number> numbers;
    for (int i = 0; i < kNumPairs<Real>; ++i) {
      const auto [first, second] = normal_pair<Real>(words, i);
      numbers[2 * i] = rounded<Number>(first);
      numbers[2 * i + 1] = rounded<Number>(second);
    }
    return numbers;
  }
};

/// The same without those of magnitude 2 and more. Each group has words of its own, of which it
/// takes as many as it needs to fill itself.
template <typename Number_>
struct TruncatedNormal {
  using Number = Number_;

  Group<Number> numbers(const WordStream& stream, uint64_t group) const {
    using Real = Computed<Number>;
    constexpr int kSize = kGroupSize<Number>;
    constexpr uint64_t kWordsOfNumber = 256;
    constexpr uint64_t kReserved = kSize * kWordsOfNumber / std::tuple_size_v<Words>;
    Group<Number> numbers;
    int found = 0;
    for (uint64_t index = group * kReserved;; ++index) {
      const Words words = stream.at(index);
      for (int i = 0; i < kNumPairs<Real>; ++i) {
        for (const Real number : normal_pair<Real>(words, i)) {
          if (!(std::abs(number) < 2)) continue;
          numbers[found++] = rounded<Number>(number);
          if (found == kSize) return numbers;
        }
      }
    }
  }
};

/// Integers in [low, high), slightly uneven: remainders of the division by the number of them.
template <std::integral Number_>
class UniformInt {
 public:
  using Number = Number_;

  UniformInt(Number low, Number high)
      : low_(static_cast<Unsigned>(low)), count_(static_cast<Unsigned>(high) - low_) {}

  Group<Number> numbers(const WordStream& stream, uint64_t group) const {
    const Words words = stream.at(group);
    Group<Number> numbers;
    for (int i = 0; i < kGroupSize<Number>; ++i) {
      numbers[i] = static_cast<Number>(low_ + integer<Number>(words, i) % count_);
    }
    return numbers;
  }

 private:
  using Unsigned = std::make_unsigned_t<Number>;

  Unsigned low_;
  Unsigned count_;
};

/// All integers of a type.
template <std::integral Number_>
struct UniformFullInt {
  using Number = Number_;

  Group<Number> numbers(const WordStream& stream, uint64_t group) const {
    const Words words = stream.at(group);
    Group<Number> numbers;
    for (int i = 0; i < kGroupSize<Number>; ++i) {
      numbers[i] = static_cast<Number>(integer<Number>(words, i));
    }
    return numbers;
  }
};

}  // namespace tnt::keras
