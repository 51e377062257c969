#include "tnt/comm/base/recycled_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace tnt::comm {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::size_t kMost = RecycledMemory::kMostIdleBytes;

std::size_t num_idle_bytes() {
  return RecycledMemory::num_idle_bytes();
}

TEST(RecycledMemory, IsUsedAgain) {
  const RecycledMemory::Keeper keeper;
  const std::byte* first = nullptr;
  {
    RecycledMemory memory(kMiB);
    first = memory.data();
    std::memset(memory.data(), 1, memory.size());
  }
  EXPECT_EQ(num_idle_bytes(), kMiB);
  RecycledMemory again(kMiB);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.size(), kMiB);
  EXPECT_EQ(num_idle_bytes(), 0U);
}

TEST(RecycledMemory, IsNotUsedAgainWhileItIsHeld) {
  const RecycledMemory::Keeper keeper;
  RecycledMemory held(kMiB);
  const RecycledMemory other(kMiB);
  EXPECT_NE(held.data(), other.data());
  RecycledMemory moved = std::move(held);
  EXPECT_EQ(held.data(), nullptr);
  const RecycledMemory third(kMiB);
  EXPECT_NE(moved.data(), third.data());
}

TEST(RecycledMemory, IsUsedForAQuarterLessAndNotForMuchLess) {
  const RecycledMemory::Keeper keeper;
  { const RecycledMemory memory(4 * kMiB); }
  {
    const RecycledMemory less(3 * kMiB);
    EXPECT_EQ(num_idle_bytes(), 0U);
    EXPECT_EQ(less.size(), 3 * kMiB);
  }
  EXPECT_EQ(num_idle_bytes(), 4 * kMiB);
  const RecycledMemory much_less(2 * kMiB);
  const RecycledMemory more(5 * kMiB);
  EXPECT_EQ(num_idle_bytes(), 4 * kMiB);
}

TEST(RecycledMemory, OfTheSizeThatFitsBestIsTaken) {
  const RecycledMemory::Keeper keeper;
  { const RecycledMemory one(4 * kMiB), two(5 * kMiB), three(6 * kMiB); }
  const RecycledMemory memory(4 * kMiB);
  EXPECT_EQ(num_idle_bytes(), 11 * kMiB);
}

TEST(RecycledMemory, IsNotKeptWhereItIsSmallOrWithoutAKeeper) {
  { const RecycledMemory memory(kMiB); }
  EXPECT_EQ(num_idle_bytes(), 0U);
  {
    const RecycledMemory::Keeper keeper;
    { const RecycledMemory memory(RecycledMemory::kSmallestKeptBytes - 1), nothing(0); }
    EXPECT_EQ(num_idle_bytes(), 0U);
    { const RecycledMemory memory(RecycledMemory::kSmallestKeptBytes); }
    EXPECT_EQ(num_idle_bytes(), RecycledMemory::kSmallestKeptBytes);
  }
  EXPECT_EQ(num_idle_bytes(), 0U);
}

TEST(RecycledMemory, IsKeptUpToTheBoundOldestOut) {
  const RecycledMemory::Keeper keeper;
  constexpr std::size_t kStep = 8 * kMiB;
  // One after the other, each too large for the one before, so that little is in use at once.
  std::size_t num_bytes = kStep;
  std::size_t total = 0;
  for (; total <= 2 * kMost; total += num_bytes, num_bytes += num_bytes / 2) {
    {
      const RecycledMemory memory(num_bytes);
    }
    EXPECT_LE(num_idle_bytes(), std::max(kMost, num_bytes));
  }
  { const RecycledMemory first(kStep); }
  EXPECT_GT(num_idle_bytes(), 0U);
}

TEST(RecycledMemory, ThatWasInUseAtOnceIsAllKept) {
  const RecycledMemory::Keeper keeper;
  constexpr std::size_t kNumBlocks = kMost / (16 * kMiB) + 4;
  {
    std::vector<RecycledMemory> blocks;
    for (std::size_t i = 0; i < kNumBlocks; ++i) blocks.emplace_back(16 * kMiB);
  }
  EXPECT_EQ(num_idle_bytes(), kNumBlocks * 16 * kMiB);
}

TEST(RecycledMemory, IsReturnedWhenItHasNotBeenUsed) {
  RecycledMemory::Keeper keeper;
  { const RecycledMemory memory(kMiB); }
  keeper.release_unused(std::chrono::minutes(1));
  EXPECT_EQ(num_idle_bytes(), kMiB);
  keeper.release_unused(std::chrono::milliseconds(0));
  EXPECT_EQ(num_idle_bytes(), 0U);
}

TEST(RecycledMemory, IsOnesOwnInThreads) {
  const RecycledMemory::Keeper keeper;
  std::atomic<int> num_wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&num_wrong, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<RecycledMemory, int>> held;
      for (int i = 0; i < 400; ++i) {
        const std::size_t num_bytes = 1 + random() % (4 * RecycledMemory::kSmallestKeptBytes);
        const int value = static_cast<int>(random() % 256);
        held.emplace_back(num_bytes, value);
        std::memset(held.back().first.data(), value, num_bytes);
        if (held.size() < 8) continue;
        const std::size_t which = random() % held.size();
        const auto& [memory, expected] = held[which];
        for (std::size_t at = 0; at < memory.size(); ++at) {
          if (memory.data()[at] != static_cast<std::byte>(expected)) ++num_wrong;
        }
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(RecycledMemory, OfAForkedChildIsItsOwn) {
  const RecycledMemory::Keeper keeper;
  { const RecycledMemory memory(kMiB); }
  RecycledMemory held(kMiB);
  std::memset(held.data(), 1, held.size());
  { const RecycledMemory memory(2 * kMiB); }
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_right = num_idle_bytes() == 0 && held.data()[kMiB - 1] == std::byte{1};
    { const RecycledMemory gone = std::move(held); }
    is_right = is_right && num_idle_bytes() == 0;
    {
      const RecycledMemory::Keeper own;
      { const RecycledMemory memory(kMiB); }
      is_right = is_right && num_idle_bytes() == kMiB;
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(num_idle_bytes(), 2 * kMiB);
  EXPECT_EQ(held.data()[0], std::byte{1});
}

}  // namespace
}  // namespace tnt::comm
