// What is recorded: buffer and timeline.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/trace/timeline.hpp"

namespace tnt::comm {
namespace {

TEST(EventBuffer, KeepsTheEventsOfAllThreadsEachInItsOrder) {
  EventBuffer buffer;
  constexpr std::uint32_t kNumThreads = 4;
  constexpr std::uint64_t kNumEvents = 20'000;  // several chunks
  std::vector<std::thread> threads;
  for (std::uint32_t row = 0; row < kNumThreads; ++row) {
    threads.emplace_back([&buffer, row] {
      for (std::uint64_t i = 0; i < kNumEvents; ++i) EXPECT_TRUE(buffer.add({0, i, row, 0, {}}));
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<std::uint64_t> next(kNumThreads);
  buffer.for_each([&](const Event& event) { EXPECT_EQ(event.value, next[event.row]++); });
  EXPECT_EQ(next, std::vector<std::uint64_t>(kNumThreads, kNumEvents));
  EXPECT_EQ(buffer.num_dropped(), 0U);
}

TEST(EventBuffer, DropsTheNewestWhenItIsFull) {
  EventBuffer buffer;
  for (std::size_t i = 0; i < EventBuffer::kCapacity; ++i) ASSERT_TRUE(buffer.add({.value = i}));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_FALSE(buffer.add({}));
  EXPECT_EQ(buffer.num_dropped(), 5U);
  std::size_t num_kept = 0;
  buffer.for_each([&](const Event& event) { num_kept += event.value == num_kept; });
  EXPECT_EQ(num_kept, EventBuffer::kCapacity);
}

TEST(Timeline, EveryThreadHasARowOfItsOwn) {
  Timeline timeline(0);
  std::set<RowId> rows = {timeline.row_of_this_thread(), timeline.row_of_this_thread()};
  std::thread([&] { rows.insert(timeline.row_of_this_thread()); }).join();
  EXPECT_EQ(rows.size(), 2U);
}

TEST(Timeline, NamesBeyondTheLimitShareOne) {
  Timeline timeline(0);
  for (std::size_t i = 0; i < Timeline::kMostNames; ++i) timeline.name(text("name ", i));
  const NameId shared = timeline.name("one more");
  EXPECT_EQ(timeline.name("and another one"), shared);
  EXPECT_EQ(timeline.name("name 7"), 7U);
}

}  // namespace
}  // namespace tnt::comm
