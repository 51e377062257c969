#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm::tests {

/// Changes valid bytes. The same for the same seed.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  /// A number in [0, end).
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }

  /// A number of 64 bits, more often than not at a limit of some type.
  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 12> kLimits = {0,
                                                       1,
                                                       2,
                                                       0x7f,
                                                       0xff,
                                                       0xffff,
                                                       0x7fffffff,
                                                       0x80000000,
                                                       0xffffffff,
                                                       std::uint64_t{1} << 62,
                                                       0x7fffffffffffffff,
                                                       0xffffffffffffffff};
    return below(4) == 0 ? random_() : kLimits[below(kLimits.size())];
  }

  /// Changes some bytes in place.
  void change(std::byte* data, std::size_t size) {
    if (size == 0) return;
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) {
      const std::size_t at = below(size);
      switch (below(3)) {
        case 0:
          data[at] ^= static_cast<std::byte>(1U << below(8));
          break;
        case 1:
          data[at] = static_cast<std::byte>(random_());
          break;
        default: {
          const std::uint64_t value = number();
          const std::size_t bytes = std::min<std::size_t>(size - at, std::size_t{1} << below(4));
          std::memcpy(data + at, &value, bytes);
        }
      }
    }
  }

  /// Text with parts changed, lost, moved and repeated.
  std::string changed(std::string value) {
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t at = below(value.size() + 1);
      const std::size_t count = std::min(value.size() - at, below(16));
      switch (below(5)) {
        case 0:
          value.erase(at, count);
          break;
        case 1:
          value.insert(below(value.size() + 1), value.substr(at, count));
          break;
        case 2:
          value.insert(at, std::to_string(static_cast<std::int64_t>(number())));
          break;
        case 3:
          value.insert(at, below(4) == 0 ? 2000 : 1, static_cast<char>(random_()));
          break;
        default:
          change(reinterpret_cast<std::byte*>(value.data()), value.size());
      }
    }
    return value;
  }

 private:
  std::mt19937_64 random_;
};

/// Runs `take(mutator)` with one seed after the other, from 0, for TNT_FUZZ_S seconds
/// (0.5 unless it is set). It may throw Errors, nothing else, and must end: after a
/// minute with one input the process is ended by SIGALRM.
template <typename Take>
void fuzz(Take&& take) {
  constexpr unsigned kMostSecondsPerInput = 60;
  const char* seconds = std::getenv("TNT_FUZZ_S");
  const Deadline end(seconds == nullptr ? 0.5 : std::atof(seconds));
  std::uint64_t seed = 0;
  for (; !end.is_over() && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    Mutator mutator(seed);
    ::alarm(kMostSecondsPerInput);
    try {
      take(mutator);
    } catch (const Error&) {
      continue;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not an Error: " << error.what();
    }
  }
  ::alarm(0);
  ::testing::Test::RecordProperty("inputs", std::to_string(seed));
  EXPECT_GT(seed, 0U);
}

}  // namespace tnt::comm::tests
