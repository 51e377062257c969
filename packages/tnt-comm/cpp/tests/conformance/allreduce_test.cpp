#include <gtest/gtest.h>

#include <vector>

#include "naive_tree.hpp"
#include "thread_ranks.hpp"

namespace tnt::comm {
namespace {

using tests::run_threads;
using tests::sum_of;
using tests::values_of;

class Allreduce : public ::testing::TestWithParam<int> {};

TEST_P(Allreduce, HasTheBitsOfTheTreeForAwkwardCounts) {
  const int size = GetParam();
  const auto n = static_cast<std::size_t>(size);
  // The last two take one slot and some slots.
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n - 1, n, n + 1,
                                  std::size_t{1009}, std::size_t{65536}, std::size_t{200003}}) {
    const auto expected = sum_of(size, count);
    run_threads(size, [&](Runtime& runtime) {
      const auto input = values_of(runtime.environment().rank, count);
      std::vector<float> out(count);
      runtime.world()
          ->start({.kind = CollectiveKind::allreduce,
                   .in = input.data(),
                   .out = out.data(),
                   .count = count,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum})
          ->wait(0);
      EXPECT_EQ(out, expected);
    });
  }
}

TEST_P(Allreduce, WorksInPlaceManyTimesOverWithSeveralInFlight) {
  constexpr std::size_t kCount = 70001;
  const int size = GetParam();
  const auto expected = sum_of(size, kCount);
  run_threads(size, [&](Runtime& runtime) {
    for (int round = 0; round < 5; ++round) {
      std::vector<std::vector<float>> data(3, values_of(runtime.environment().rank, kCount));
      std::vector<std::shared_ptr<Request>> requests;
      for (auto& array : data) {
        requests.push_back(runtime.world()->start({.kind = CollectiveKind::allreduce,
                                                   .in = array.data(),
                                                   .out = array.data(),
                                                   .count = kCount,
                                                   .dtype = DType::float32,
                                                   .op = ReduceOp::sum}));
      }
      for (auto& request : requests) request->wait(0);
      for (auto& array : data) EXPECT_EQ(array, expected);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Allreduce, ::testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace tnt::comm
