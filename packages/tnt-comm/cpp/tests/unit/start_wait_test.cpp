#include "tnt/comm/base/start_wait.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr double kUsualS = 600.0;

class StartWaitTest : public ::testing::Test {
 protected:
  ~StartWaitTest() override {
    set_watched({});
    set_start_timeout(std::nullopt);
  }
};

TEST_F(StartWaitTest, WithoutAWatchTheEnvironmentCounts) {
  EXPECT_EQ(start_timeout_s(kUsualS), kUsualS);
  EXPECT_EQ(start_report_s(120.0), 120.0);
  EXPECT_EQ(remedy_for_absent_ranks("Look."), "Look.");
  EXPECT_EQ(places_of({0, 1}), "");
}

TEST_F(StartWaitTest, WatchedRanksAreWaitedForForYearsAndToldOfAfterHalfAMinute) {
  set_watched([](int) { return std::string(); });
  EXPECT_GT(start_timeout_s(kUsualS), 365.0 * 24 * 3600);
  EXPECT_EQ(start_report_s(120.0), 30.0);
  EXPECT_EQ(start_report_s(6.0), 6.0);
  EXPECT_NE(remedy_for_absent_ranks("Look."), "Look.");
}

TEST_F(StartWaitTest, ALimitOfTheCallerCountsInAnyCase) {
  set_start_timeout(3.0);
  EXPECT_EQ(start_timeout_s(kUsualS), 3.0);
  set_watched([](int) { return std::string(); });
  EXPECT_EQ(start_timeout_s(kUsualS), 3.0);
  EXPECT_EQ(remedy_for_absent_ranks("Look."),
            "This is no error as long as their processes run: the wait goes on for 3 s.");
}

TEST_F(StartWaitTest, PlacesAreThoseThatAreKnownAndNotTooMany) {
  set_watched([](int rank) { return rank == 1 ? "" : text("train.py:", rank); });
  EXPECT_EQ(places_of({0, 1, 2}), " Rank 0 is at train.py:0. Rank 2 is at train.py:2.");
  EXPECT_EQ(places_of({2, 3, 4, 5, 6}), places_of({2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace tnt::comm
