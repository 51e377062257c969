#include "tnt/comm/base/array.hpp"

#include <gtest/gtest.h>

namespace tnt::comm {
namespace {

TEST(PartOf, PartsAreContiguousAndCoverEverything) {
  for (std::size_t count = 0; count < 70; ++count) {
    for (std::size_t parts = 1; parts < 9; ++parts) {
      for (std::size_t granule : {1, 4, 16}) {
        std::size_t end = 0;
        for (std::size_t index = 0; index < parts; ++index) {
          const Range part = part_of(count, parts, index, granule);
          EXPECT_EQ(part.begin, end);
          EXPECT_LE(part.begin, part.end);
          end = part.end;
        }
        EXPECT_EQ(end, count);
      }
    }
  }
}

TEST(PartOf, SizesDifferByAtMostOneAndTheFirstAreLarger) {
  for (std::size_t count = 0; count < 50; ++count) {
    for (std::size_t index = 1; index < 7; ++index) {
      const std::size_t before = part_of(count, 7, index - 1).size();
      const std::size_t here = part_of(count, 7, index).size();
      EXPECT_LE(here, before);
      EXPECT_LE(before, here + 1);
    }
  }
}

TEST(PartOf, BoundariesLieOnGranules) {
  for (std::size_t index = 0; index < 5; ++index) {
    EXPECT_EQ(part_of(1000, 5, index, 16).begin % 16, 0U);
  }
}

TEST(SmallestPrimeFactor, IsTheSmallestDivisorAboveOne) {
  for (std::size_t n = 2; n < 200; ++n) {
    std::size_t expected = 2;
    while (n % expected != 0) ++expected;
    EXPECT_EQ(smallest_prime_factor(n), expected);
  }
}

TEST(RoundUp, GivesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 64), 0U);
  EXPECT_EQ(round_up(1, 64), 64U);
  EXPECT_EQ(round_up(64, 64), 64U);
}

}  // namespace
}  // namespace tnt::comm
