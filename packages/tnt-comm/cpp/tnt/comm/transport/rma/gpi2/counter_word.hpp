#pragma once

#include <cstdint>

namespace tnt::comm {

// A notification of GASPI carries 32 bits that must not be zero, a notification
// counter of ours has 64 and only grows. The word holds the counter's lower 31
// bits, and a one.

inline constexpr std::uint64_t kCounterWordModulus = std::uint64_t{1} << 31;

inline std::uint32_t word_of_counter(std::uint64_t counter) {
  return static_cast<std::uint32_t>(counter % kCounterWordModulus) | 0x80000000U;
}

/// The counter behind a word that came after `newest`. Words that were overtaken
/// give `newest`. Both are less than 2^30 apart: nobody runs ahead that far.
inline std::uint64_t counter_of_word(std::uint32_t word, std::uint64_t newest) {
  const std::uint64_t ahead =
      (word - word_of_counter(newest)) % static_cast<std::uint32_t>(kCounterWordModulus);
  return ahead < kCounterWordModulus / 2 ? newest + ahead : newest;
}

}  // namespace tnt::comm
