#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "errors.hpp"
#include "naive_tree.hpp"
#include "networks.hpp"
#include "tnt/comm/base/array.hpp"
#include "tnt/comm/communicator/gatherer.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;
using tests::sum_of;
using tests::values_of;

class CollectiveCalls : public ::testing::TestWithParam<NamedJob> {
 protected:
  static int size() { return GetParam().job.size; }
};

TEST_P(CollectiveCalls, BroadcastGivesEverybodyTheRootsArray) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    for (int root = 0; root < size(); ++root) {
      for (const std::size_t count : {0, 1, 150001}) {
        const auto input = values_of(runtime.environment().rank, count);
        std::vector<float> out(count);
        runtime.world()
            ->start({.kind = CollectiveKind::broadcast,
                     .in = input.data(),
                     .out = out.data(),
                     .count = count,
                     .dtype = DType::float32,
                     .root = root})
            ->wait(0);
        EXPECT_EQ(out, values_of(root, count));
      }
    }
  });
}

TEST_P(CollectiveCalls, ReduceScatterGivesEachRankItsPart) {
  constexpr std::size_t kCount = 100003;
  const auto n = static_cast<std::size_t>(size());
  const auto sum = sum_of(size(), kCount);
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const auto input = values_of(rank, kCount);
    const Range part = part_of(kCount, n, static_cast<std::size_t>(rank));
    std::vector<float> out(part.size());
    runtime.world()
        ->start({.kind = CollectiveKind::reduce_scatter,
                 .in = input.data(),
                 .out = out.data(),
                 .count = kCount,
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), sum.begin() + static_cast<long>(part.begin)));
  });
}

TEST_P(CollectiveCalls, BlocksThatNoMemoryHoldsAreRefused) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    // Whose bytes, as a number of 64 bits, are none.
    constexpr std::size_t kCount = std::size_t{1} << 62;
    const Error error = tests::error_of([&] {
      runtime.world()->start({.kind = CollectiveKind::allgather,
                              .in = nullptr,
                              .count = kCount,
                              .dtype = DType::float32});
    });
    EXPECT_NE(std::string(error.what())
                  .find("allgather has 4611686018427387904 elements of 4 bytes: more "
                        "than any memory holds"),
              std::string::npos)
        << error.what();
  });
}

// Rows are more than fit one slot, as many as not all parts are equal, and fewer than ranks.
constexpr std::size_t kRowCounts[] = {100003, 17, 2, 0};
constexpr std::size_t kRowElements = 3;

// What is at a position of the array of a rank.
float value_at(int rank, std::size_t position) {
  return static_cast<float>(rank * 1000003) + static_cast<float>(position % 65536);
}

std::vector<float> array_of(int rank, const Range& elements) {
  std::vector<float> result;
  for (std::size_t i = elements.begin; i < elements.end; ++i) result.push_back(value_at(rank, i));
  return result;
}

TEST_P(CollectiveCalls, AlltoallGivesEachRankItsPartOfAllArraysInTheirOrder) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    for (const std::size_t num_rows : kRowCounts) {
      const auto input = array_of(rank, {0, num_rows * kRowElements});
      const Range rows =
          part_of(num_rows, static_cast<std::size_t>(size()), static_cast<std::size_t>(rank));
      std::vector<float> expected;
      for (int other = 0; other < size(); ++other) {
        const auto part = array_of(other, {rows.begin * kRowElements, rows.end * kRowElements});
        expected.insert(expected.end(), part.begin(), part.end());
      }
      std::vector<float> out(expected.size());
      runtime.world()
          ->start({.kind = CollectiveKind::alltoall,
                   .in = input.data(),
                   .out = out.data(),
                   .count = num_rows,
                   .dtype = DType::float32,
                   .row_elements = kRowElements})
          ->wait(0);
      EXPECT_EQ(out, expected) << num_rows << " rows";
    }
  });
}

TEST_P(CollectiveCalls, ScatterGivesEachRankItsPartOfTheRootsArray) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    for (int root = 0; root < size(); ++root) {
      for (const std::size_t num_rows : kRowCounts) {
        const auto input = array_of(rank, {0, num_rows * kRowElements});
        const Range rows =
            part_of(num_rows, static_cast<std::size_t>(size()), static_cast<std::size_t>(rank));
        std::vector<float> out(rows.size() * kRowElements);
        runtime.world()
            ->start({.kind = CollectiveKind::scatter,
                     .in = input.data(),
                     .out = out.data(),
                     .count = num_rows,
                     .dtype = DType::float32,
                     .root = root,
                     .row_elements = kRowElements})
            ->wait(0);
        EXPECT_EQ(out, array_of(root, {rows.begin * kRowElements, rows.end * kRowElements}))
            << num_rows << " rows of rank " << root;
      }
    }
  });
}

TEST_P(CollectiveCalls, GatherGivesTheRootAloneTheArraysOfAll) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const auto count_of = [](int of) { return static_cast<std::size_t>(of % 3) * 90001; };
    for (int root = 0; root < size(); ++root) {
      const auto input = array_of(rank, {0, count_of(rank)});
      const auto request = runtime.world()->start({.kind = CollectiveKind::gather,
                                                   .in = input.data(),
                                                   .count = input.size(),
                                                   .dtype = DType::float32,
                                                   .root = root,
                                                   .shape = 7});
      request->wait(0);
      std::vector<float> expected;
      for (int other = 0; rank == root && other < size(); ++other) {
        const auto part = array_of(other, {0, count_of(other)});
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const Gathered& gathered = request->gathered();
      const auto* values = reinterpret_cast<const float*>(gathered.blocks.data());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), values)) << "root " << root;
      if (rank == root) {
        EXPECT_EQ(gathered.ends.back(), expected.size() * sizeof(float));
      }
    }
  });
}

TEST_P(CollectiveCalls, DifferentRootsAreAMismatchThatNamesThem) {
  if (size() < 2) return;
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const std::vector<float> input(static_cast<std::size_t>(size()));
    std::vector<float> out(1);
    const auto request = runtime.world()->start({.kind = CollectiveKind::scatter,
                                                 .in = input.data(),
                                                 .out = out.data(),
                                                 .count = input.size(),
                                                 .dtype = DType::float32,
                                                 .root = rank == 0 ? 0 : 1});
    try {
      request->wait(0);
      ADD_FAILURE() << "the roots differ";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
      EXPECT_NE(std::string(error.what()).find("scatter(float32, "), std::string::npos);
    }
  });
}

TEST_P(CollectiveCalls, GathererKeepsUnequalBlocksApartStepAfterStep) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    Gatherer gatherer(runtime.world(), "rows");
    for (int step = 0; step < 10; ++step) {
      const auto count_of = [&](int rank) {
        return static_cast<std::size_t>((rank + step) % 3) * 30011;
      };
      const auto own = values_of(runtime.environment().rank, count_of(runtime.environment().rank));
      gatherer.start(own.data(), own.size() * sizeof(float));
      const auto sizes = gatherer.wait();
      std::vector<float> all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) /
                             sizeof(float));
      gatherer.finish(all.data());
      auto position = all.begin();
      for (int rank = 0; rank < size(); ++rank) {
        const auto expected = values_of(rank, count_of(rank));
        ASSERT_EQ(sizes[static_cast<std::size_t>(rank)], expected.size() * sizeof(float));
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), position));
        position += static_cast<long>(expected.size());
      }
    }
  });
}

TEST_P(CollectiveCalls, AGroupOfTheOddRanksWorksBesideTheWorld) {
  if (size() < 3) return;  // there is no second odd rank
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    std::vector<int> odd;
    for (int other = 1; other < size(); other += 2) odd.push_back(other);
    if (rank % 2 == 1) {
      const auto group = Group::create(runtime, odd, "odd");
      std::int64_t total = rank;
      group
          ->start({.kind = CollectiveKind::allreduce,
                   .in = &total,
                   .out = &total,
                   .count = 1,
                   .dtype = DType::int64,
                   .op = ReduceOp::sum})
          ->wait(0);
      EXPECT_EQ(total, std::accumulate(odd.begin(), odd.end(), 0));
    }
    runtime.world()->start(Call{})->wait(0);
  });
}

std::vector<NamedJob> jobs_for_collectives() {
  std::vector<NamedJob> jobs;
  for (const int size : {1, 2, 3, 4, 7}) jobs.push_back(tests::shared_memory(size));
  for (const int size : {1, 2, 3, 4, 6, 7}) jobs.push_back(tests::put_only(size));
  for (const int size : {2, 3, 4}) jobs.push_back(tests::late(tests::put_only(size)));
  jobs.push_back(tests::on_hosts(2, 2));
  jobs.push_back(tests::late(tests::on_hosts(2, 2)));
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Networks, CollectiveCalls, ::testing::ValuesIn(jobs_for_collectives()),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
