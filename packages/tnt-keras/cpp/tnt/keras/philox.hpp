// Philox 4x32-10, random numbers without a state (Salmon, Moraes, Dror and Shaw 2011: "Parallel
// random numbers: as easy as 1, 2, 3"). Ten rounds mix a counter of 128 bits under a key of 64. So
// what stands anywhere in a draw is known from its position alone.
#pragma once

#include <array>
#include <cstdint>

namespace tnt::keras {

/// What one counter gives.
using Words = std::array<uint32_t, 4>;

/// A number of 128 bits.
struct Counter {
  uint64_t low;
  uint64_t high;
};

inline Counter operator+(Counter counter, uint64_t distance) {
  const uint64_t low = counter.low + distance;
  const uint64_t carry = low < distance ? 1 : 0;
  return {low, counter.high + carry};
}

/// Mixes `counter` under `key`.
inline Words philox(Counter counter, uint64_t key) {
  constexpr uint64_t kFirstFactor = 0xD2511F53;
  constexpr uint64_t kSecondFactor = 0xCD9E8D57;
  constexpr uint32_t kGoldenRatio = 0x9E3779B9;
  constexpr uint32_t kRootOfThree = 0xBB67AE85;
  const auto low = [](uint64_t number) { return static_cast<uint32_t>(number); };
  const auto high = [](uint64_t number) { return static_cast<uint32_t>(number >> 32); };

  Words words{low(counter.low), high(counter.low), low(counter.high), high(counter.high)};
  uint32_t first_key = low(key);
  uint32_t second_key = high(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = kFirstFactor * words[0];
    const uint64_t second = kSecondFactor * words[2];
    words = {high(second) ^ words[1] ^ first_key, low(second), high(first) ^ words[3] ^ second_key,
             low(first)};
    first_key += kGoldenRatio;
    second_key += kRootOfThree;
  }
  return words;
}

/// The words of one draw, each four at the counter that follows.
class WordStream {
 public:
  WordStream(uint64_t key, Counter start) : key_(key), start_(start) {}

  /// The four words at `index`.
  Words at(uint64_t index) const { return philox(start_ + index, key_); }

 private:
  uint64_t key_;
  Counter start_;
};

}  // namespace tnt::keras
