#include "tnt/comm/progress/operation.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

TEST(Completion, IsReachedAfterThatManyCompletions) {
  Completion completion;
  EXPECT_TRUE(completion.has_reached(0));
  EXPECT_FALSE(completion.has_reached(1));
  completion.complete();
  EXPECT_TRUE(completion.has_reached(1));
  EXPECT_FALSE(completion.has_reached(2));
}

TEST(Completion, AWaitEndsAtItsDeadline) {
  const Completion completion;
  EXPECT_FALSE(completion.wait_until(1, Deadline(0.01).end()));
}

TEST(Completion, AllWaitersWakeUp) {
  Completion completion;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { EXPECT_TRUE(completion.wait_until(2, Deadline(30).end())); });
  }
  completion.complete();
  completion.complete();
  for (auto& waiter : waiters) waiter.join();
}

// Two threads that wait for each other, each about to sleep when the other one completes.
TEST(Completion, NoWakeUpIsLost) {
  constexpr std::uint32_t kRounds = 20'000;
  Completion ping;
  Completion pong;
  const Deadline deadline(60);
  std::thread other([&] {
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(ping.wait_until(round, deadline.end()));
      pong.complete();
    }
  });
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    ping.complete();
    if (!pong.wait_until(round, deadline.end())) break;
  }
  other.join();
  EXPECT_TRUE(pong.has_reached(kRounds));
}

TEST(Completion, AnErrorEndsAllLaterWaitsButNotEarlierResults) {
  Completion completion;
  completion.complete();
  completion.fail(Error(ErrorKind::comm, "first"));
  completion.fail(Error(ErrorKind::comm, "second"));
  EXPECT_TRUE(completion.wait_until(2, Deadline(30).end()));
  EXPECT_NO_THROW(completion.rethrow_unless_completed(1));
  try {
    completion.rethrow_unless_completed(2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

TEST(Deadline, AHugeTimeoutDoesNotOverflow) {
  EXPECT_FALSE(Deadline(1e300).is_over());
  EXPECT_TRUE(Deadline(-1).is_over());
}

}  // namespace
}  // namespace tnt::comm
