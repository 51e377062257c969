#include "tnt/comm/communicator/group_object.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "naive_tree.hpp"
#include "thread_ranks.hpp"

namespace tnt::comm {
namespace {

using tests::run_threads;
using tests::sum_of;
using tests::values_of;

void fill(float* target, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), target);
}

class SharedArrays : public ::testing::TestWithParam<int> {};

TEST_P(SharedArrays, AllreducesHaveTheBitsOfTheTreeForAwkwardCounts) {
  const int size = GetParam();
  const auto n = static_cast<std::size_t>(size);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n - 1, n + 1, std::size_t{8192},
                                  std::size_t{8193}, std::size_t{65536}, std::size_t{1000003}}) {
    const auto expected = sum_of(size, count);
    run_threads(size, [&](Runtime& runtime) {
      SharedArray in(*runtime.world(), count * sizeof(float));
      SharedArray out(*runtime.world(), count * sizeof(float));
      const auto input = values_of(runtime.environment().rank, count);
      fill(reinterpret_cast<float*>(in.data()), input);
      const auto allreduce = [&](const SharedArray& from, SharedArray& to) {
        const auto request = runtime.world()->run({.kind = CollectiveKind::allreduce,
                                                   .in = from.data(),
                                                   .out = to.data(),
                                                   .count = count,
                                                   .dtype = DType::float32,
                                                   .op = ReduceOp::sum});
        if (request) request->wait(0);
        const auto* result = reinterpret_cast<const float*>(to.data());
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result));
      };
      allreduce(in, out);
      EXPECT_TRUE(std::equal(input.begin(), input.end(), reinterpret_cast<float*>(in.data())));
      allreduce(in, in);
    });
  }
}

// Which rank uses which memory is different in every call.
TEST_P(SharedArrays, MixWithPrivateArraysWhileSeveralAreInFlight) {
  constexpr std::size_t kCount = 150001;
  const int size = GetParam();
  const auto expected = sum_of(size, kCount);
  run_threads(size, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    SharedArray region(*runtime.world(), 4 * (kCount + 1) * sizeof(float));
    auto* shared = reinterpret_cast<float*>(region.data());
    for (int round = 0; round < 6; ++round) {
      std::vector<std::vector<float>> memory(3, std::vector<float>(kCount));
      std::vector<float*> arrays;
      std::vector<std::shared_ptr<Request>> requests;
      for (int call = 0; call < 3; ++call) {
        const bool is_shared = (round + call) % 2 == 0 || (rank + call) % 2 == 0;
        arrays.push_back(is_shared ? shared + static_cast<std::size_t>(call) * (kCount + 1) + call
                                   : memory[static_cast<std::size_t>(call)].data());
        fill(arrays.back(), values_of(rank, kCount));
        requests.push_back(runtime.world()->start({.kind = CollectiveKind::allreduce,
                                                   .in = arrays.back(),
                                                   .out = arrays.back(),
                                                   .count = kCount,
                                                   .dtype = DType::float32,
                                                   .op = ReduceOp::sum}));
      }
      for (const auto& request : requests) request->wait(0);
      for (const float* array : arrays) {
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), array));
      }
    }
  });
}

TEST_P(SharedArrays, MayBeDestroyedInAnyOrder) {
  run_threads(GetParam(), [&](Runtime& runtime) {
    std::vector<std::unique_ptr<SharedArray>> arrays;
    for (int i = 0; i < 4; ++i) {
      arrays.push_back(std::make_unique<SharedArray>(*runtime.world(), 100000));
    }
    auto kept = std::make_unique<SharedArray>(*runtime.world(), 100000);
    std::rotate(arrays.begin(), arrays.begin() + runtime.environment().rank % 4, arrays.end());
    for (auto& array : arrays) {
      array.reset();
      std::fill_n(reinterpret_cast<std::int32_t*>(kept->data()), 25000, 1);
      runtime.world()
          ->start({.kind = CollectiveKind::allreduce,
                   .in = kept->data(),
                   .out = kept->data(),
                   .count = 25000,
                   .dtype = DType::int32,
                   .op = ReduceOp::sum})
          ->wait(0);
      EXPECT_EQ(reinterpret_cast<std::int32_t*>(kept->data())[24999], GetParam());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedArrays, ::testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace tnt::comm
