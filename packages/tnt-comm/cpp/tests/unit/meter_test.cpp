#include <gtest/gtest.h>

#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {
namespace {

Clock::time_point at(int seconds) {
  return Clock::time_point() + std::chrono::seconds(seconds);
}

TEST(IntervalUnion, OverlapsCountOnce) {
  IntervalUnion intervals;
  intervals.open(at(1));
  intervals.open(at(2));
  intervals.close(at(4));
  EXPECT_EQ(intervals.total_s(at(5)), 4);  // one is still open
  intervals.close(at(6));
  EXPECT_EQ(intervals.total_s(at(9)), 5);
  intervals.open(at(10));
  intervals.close(at(11));
  EXPECT_EQ(intervals.total_s(at(12)), 6);
}

TEST(Probe, CountsEveryPostOnceAndEndsItOnce) {
  const auto monitor = std::make_shared<Monitor>();
  Probe probe;
  probe.end(true);  // not attached: observes nothing
  probe.attach(monitor, nullptr, 100);
  for (int step = 0; step < 3; ++step) {
    probe.post();
    probe.end(true);
    probe.end(false);
  }
  const Counters counters = monitor->meter.counters();
  EXPECT_EQ(counters.num_operations, 3U);
  EXPECT_EQ(counters.num_bytes, 300U);
  // Nothing is open any more: the time stands still.
  EXPECT_EQ(monitor->meter.counters().communication_s, counters.communication_s);
}

TEST(Probe, AWaitStandsForAnOperationThatTheCallerDrives) {
  const auto monitor = std::make_shared<Monitor>();
  Probe probe;
  probe.attach(monitor, nullptr, 1);
  probe.post_and_wait();
  { const ObservedWait observed(probe, Clock::now()); }
  probe.end(true);
  const Counters counters = monitor->meter.counters();
  EXPECT_EQ(counters.num_waits, 1U);
  EXPECT_EQ(counters.communication_s, counters.exposed_s);
  EXPECT_GT(counters.exposed_s, 0);
}

}  // namespace
}  // namespace tnt::comm
