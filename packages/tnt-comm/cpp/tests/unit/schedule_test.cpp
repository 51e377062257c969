// Schedules are pure data, so what every rank does can be simulated without
// any communication, for many more ranks than a machine has.

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "schedule_simulation.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"

namespace tnt::comm {
namespace {

using tests::naive_tree;
using tests::ScheduleSimulation;
using Symbol = ScheduleSimulation::Symbol;

constexpr std::size_t kGranule = ScheduleSimulation::kGranule;
constexpr int kMostRanks = 64;

// What a rank contributes at a place.
Symbol input(std::size_t rank, std::size_t place) {
  return 1000003 * (rank + 1) + place;
}

Symbol sum_at(const std::vector<int>& counts, std::size_t size, std::size_t place) {
  std::vector<Symbol> inputs;
  for (std::size_t rank = 0; rank < size; ++rank) inputs.push_back(input(rank, place));
  return naive_tree(inputs, counts, ScheduleSimulation::combine);
}

// Of blocks of several lengths; `counts`: of the tree.
void expect_tree_over_all_inputs(const LevelScheme& scheme, const std::vector<int>& counts) {
  const SumTree tree(counts);
  const int size = tree.size();
  const auto n = static_cast<std::size_t>(size);
  for (const std::size_t num_granules : {std::size_t{0}, std::size_t{1}, n - 1, n + 1, 3 * n}) {
    const std::size_t num_bytes = num_granules * kGranule;
    const AreaSizes areas = allreduce_areas(scheme, tree, num_bytes);
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < size; ++rank) {
      schedules.push_back(allreduce_schedule(scheme, rank, tree, num_bytes, {0, areas.work}));
    }
    const std::vector<Schedule> plan = schedules;
    ScheduleSimulation simulation(std::move(schedules), areas.work + areas.landing,
                                  static_cast<unsigned>(size), counts);
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < num_granules; ++i) simulation.slot(rank)[i] = input(rank, i);
    }
    ASSERT_TRUE(simulation.run()) << size << " ranks, " << num_granules << " granules";
    for (std::size_t rank = 0; rank < n; ++rank) {
      const std::size_t begin = plan[rank].result / kGranule;
      for (std::size_t i = 0; i < num_granules; ++i) {
        ASSERT_EQ(simulation.slot(rank)[begin + i], sum_at(counts, n, i))
            << "rank " << rank << " of " << size;
      }
    }
  }
}

class AllreduceSchedule : public ::testing::TestWithParam<LevelScheme> {};

TEST_P(AllreduceSchedule, GivesEveryRankTheTreeOverAllInputsInAnyOrderOfEvents) {
  for (int size = 1; size <= kMostRanks; ++size) expect_tree_over_all_inputs(GetParam(), {size});
}

TEST_P(AllreduceSchedule, GivesEveryRankTheSumInAnotherOrder) {
  for (const auto& counts : std::vector<std::vector<int>>{{3, 2}, {6, 4}, {6, 16}, {12, 3, 2}}) {
    expect_tree_over_all_inputs(GetParam(), counts);
  }
}

TEST_P(AllreduceSchedule, UsesNoMoreNotificationsThanAreReserved) {
  for (int size = 1; size <= kMostRanks; ++size) {
    for (const Round& round : allreduce_schedule(GetParam(), 0, SumTree(size), 640, {}).rounds) {
      for (const Message& message : round.sends) {
        EXPECT_LT(message.id, num_rounds(GetParam(), SumTree(size)));
      }
    }
    EXPECT_LE(num_rounds(GetParam(), SumTree(size)), max_num_rounds(size));
  }
}

TEST_P(AllreduceSchedule, NumbersArrivalsSoThatEachHasOneSender) {
  for (int size = 1; size <= kMostRanks; ++size) {
    const std::size_t num_ids = num_arrivals(GetParam(), SumTree(size));
    std::map<std::pair<int, NotificationId>, int> senders;  // of receivers' notifications
    std::map<std::pair<int, NotificationId>, int> awaited;
    for (int rank = 0; rank < size; ++rank) {
      Schedule schedule = allreduce_schedule(GetParam(), rank, SumTree(size), 640, {});
      number_arrivals(schedule);
      for (const Round& round : schedule.rounds) {
        for (const Message& message : round.sends) {
          EXPECT_LT(message.id, num_ids);
          EXPECT_TRUE(senders.insert({{message.member, message.id}, rank}).second);
        }
        for (const Arrival& arrival : round.arrivals) {
          EXPECT_TRUE(awaited.insert({{rank, arrival.id}, arrival.member}).second);
        }
      }
    }
    EXPECT_EQ(senders, awaited);
    EXPECT_EQ(senders.size(), num_ids * static_cast<std::size_t>(size));
  }
}

// Rounds, messages and bytes as documented with LevelScheme.
TEST_P(AllreduceSchedule, SendsWhatTheDocumentationSays) {
  for (int size = 2; size <= kMostRanks; ++size) {
    const auto n = static_cast<std::size_t>(size);
    const std::size_t num_bytes = n * kGranule;
    std::size_t num_levels = 0;
    std::size_t num_others = 0;
    for (const Level& level : levels_of(SumTree(size), GetParam().radices)) {
      ++num_levels;
      num_others += static_cast<std::size_t>(level.radix - 1);
    }
    const std::size_t phases = GetParam().is_split ? 2 : 1;
    const Schedule schedule = allreduce_schedule(GetParam(), 0, SumTree(size), num_bytes, {});
    std::size_t num_messages = 0;
    std::size_t num_sent = 0;
    for (const Round& round : schedule.rounds) {
      for (const Message& message : round.sends) {
        ++num_messages;
        num_sent += message.num_bytes;
      }
    }
    EXPECT_EQ(schedule.rounds.size(), phases * num_levels);
    EXPECT_EQ(num_messages, phases * num_others);
    EXPECT_EQ(num_sent, GetParam().is_split ? 2 * (n - 1) * num_bytes / n : num_others * num_bytes);
  }
}

TEST_P(AllreduceSchedule, LongestBlockFitsAndALongerOneDoesNot) {
  for (int size = 2; size <= kMostRanks; ++size) {
    const AreaSizes available{64 * kGranule, 80 * kGranule};
    const std::size_t longest = longest_block(GetParam(), SumTree(size), available);
    const auto fits = [&](std::size_t num_bytes) {
      const AreaSizes needed = allreduce_areas(GetParam(), SumTree(size), num_bytes);
      return needed.work <= available.work && needed.landing <= available.landing;
    };
    EXPECT_TRUE(fits(longest));
    EXPECT_FALSE(fits(longest + kGranule));
  }
}

INSTANTIATE_TEST_SUITE_P(Exchanges, AllreduceSchedule,
                         ::testing::Values(LevelScheme{false, Radices::one},
                                           LevelScheme{false, Radices::primes},
                                           LevelScheme{true, Radices::one},
                                           LevelScheme{true, Radices::primes}));

TEST(BroadcastSchedule, TakesTheBlockFromAnyRootToEverybodyInLogarithmicallyManySends) {
  for (int size = 1; size <= kMostRanks; ++size) {
    for (const int root : {0, size / 3, size - 1}) {
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < size; ++rank) {
        schedules.push_back(broadcast_schedule(rank, size, root, 3 * kGranule, {}));
        std::size_t most_sends = 1;  // the answer
        for (int reach = 1; reach < size; reach *= 2) ++most_sends;
        EXPECT_LE(schedules.back().rounds.back().sends.size(), most_sends);
      }
      ScheduleSimulation simulation(std::move(schedules), 3 * kGranule, 5);
      simulation.slot(static_cast<std::size_t>(root)) = {11, 22, 33};
      ASSERT_TRUE(simulation.run());
      for (std::size_t rank = 0; rank < simulation.size(); ++rank) {
        EXPECT_EQ(simulation.slot(rank), (std::vector<Symbol>{11, 22, 33}));
      }
      EXPECT_EQ(simulation.num_messages(), 2 * (simulation.size() - 1));
    }
  }
}

// Of the same to all, with the lengths of blocks; or of a part to each.
Schedule exchange(int rank, int size, SentParts parts, std::size_t num_bytes, const Areas& areas) {
  Schedule schedule = exchange_schedule(rank, size, 2 * kGranule, parts, areas);
  for (Message& message : schedule.rounds.front().sends) message.num_bytes = num_bytes;
  return schedule;
}

TEST(ExchangeSchedule, BringsEverybodysBlockToItsPlace) {
  for (int size = 1; size <= kMostRanks; ++size) {
    const auto n = static_cast<std::size_t>(size);
    const Areas areas{0, 4 * kGranule};
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < size; ++rank) {
      const std::size_t length = static_cast<std::size_t>(rank % 3) * kGranule;
      schedules.push_back(exchange(rank, size, SentParts::same, length, areas));
    }
    ScheduleSimulation simulation(std::move(schedules), (4 + 2 * n) * kGranule, 9);
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < 2; ++i) simulation.slot(rank)[i] = input(rank, i);
    }
    ASSERT_TRUE(simulation.run());
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t sender = 0; sender < n; ++sender) {
        for (std::size_t i = 0; i < sender % 3 && sender != rank; ++i) {
          EXPECT_EQ(simulation.slot(rank)[4 + 2 * sender + i], input(sender, i));
        }
      }
    }
  }
}

TEST(ExchangeSchedule, BringsEachRankThePartsThatAllHaveForIt) {
  for (int size = 1; size <= kMostRanks; ++size) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < size; ++rank) {
      schedules.push_back(
          exchange(rank, size, SentParts::different, kGranule, {0, 2 * n * kGranule}));
    }
    ScheduleSimulation simulation(std::move(schedules), 4 * n * kGranule, 3);
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t to = 0; to < n; ++to) simulation.slot(rank)[2 * to] = input(rank, to);
    }
    ASSERT_TRUE(simulation.run());
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t sender = 0; sender < n; ++sender) {
        if (sender == rank) continue;
        EXPECT_EQ(simulation.slot(rank)[2 * n + 2 * sender], input(sender, rank));
      }
    }
  }
}

}  // namespace
}  // namespace tnt::comm
