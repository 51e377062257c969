// Buckets over networks: the same sums, whatever the order of the starts, and
// buckets that do not wait for each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "networks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"
#include "typed_reference.hpp"

namespace tnt::comm {
namespace {

using tests::input_of;
using tests::NamedJob;
using tests::reduction_of;
using tests::run_job;

struct Tensor {
  DType dtype;
  std::size_t count;
};
const std::vector<Tensor> kTensors = {
    {DType::float32, 94},   {DType::float32, 17},    {DType::bfloat16, 81},
    {DType::float32, 0},    {DType::float32, 1},     {DType::float64, 5000},
    {DType::float32, 5000}, {DType::float16, 40009}, {DType::float32, 300007},
    {DType::int32, 33},     {DType::float32, 2}};

FusionPlan network_plan(std::size_t threshold_bytes) {
  std::vector<TensorSpec> specs;
  for (const Tensor& tensor : kTensors) {
    specs.push_back({text("t", specs.size()), tensor.dtype, tensor.count});
  }
  return {specs, threshold_bytes};
}

class NetworkReducer : public ::testing::TestWithParam<NamedJob> {
 protected:
  static int size() { return GetParam().job.size; }
};

TEST_P(NetworkReducer, SumsFollowTheTreeInAnyOrderOfStarts) {
  std::vector<std::vector<std::byte>> expected;
  for (const Tensor& tensor : kTensors) {
    expected.push_back(reduction_of(tensor.dtype, ReduceOp::sum, size(), tensor.count));
  }
  for (const std::size_t threshold : {0, 32768, 1 << 30}) {
    run_job(GetParam().job, [&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), network_plan(threshold), "g");
      const int rank = runtime.environment().rank;
      std::vector<std::vector<std::byte>> inputs;
      for (const Tensor& tensor : kTensors) {
        inputs.push_back(input_of(tensor.dtype, rank, tensor.count));
      }
      std::mt19937 random(static_cast<unsigned>(rank));
      std::vector<std::size_t> order(kTensors.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (int step = 0; step < 6; ++step) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          reducer.start(i, inputs[i].data(), 1.0);
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          std::vector<std::byte> out(inputs[i].size());
          reducer.finish(i, out.data());
          EXPECT_TRUE(out == expected[i]) << "tensor " << i << ", step " << step;
        }
      }
    });
  }
}

TEST_P(NetworkReducer, ABucketThatIsLateHoldsUpNoOther) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), network_plan(0), "g");
    const int rank = runtime.environment().rank;
    const auto start = [&](std::size_t i) {
      reducer.start(i, input_of(kTensors[i].dtype, rank, kTensors[i].count).data(), 1.0);
    };
    const auto finish = [&](std::size_t i) {
      std::vector<std::byte> out(kTensors[i].count * size_of(kTensors[i].dtype));
      reducer.finish(i, out.data());
    };
    // Rank 0 starts the large one only when the small one is summed.
    if (rank != 0) start(8);
    start(0);
    finish(0);
    if (rank == 0) start(8);
    finish(8);
  });
}

TEST_P(NetworkReducer, StepsMayDifferInTheirInputs) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), FusionPlan({{"t", DType::int64, 70001}}, 0), "g");
    for (std::int64_t step = 0; step < 20; ++step) {
      std::vector<std::int64_t> data(70001, step + runtime.environment().rank);
      reducer.start(0, data.data(), 1.0);
      reducer.finish(0, data.data());
      const std::int64_t sum = size() * step + size() * (size() - 1) / 2;
      EXPECT_EQ(data, std::vector<std::int64_t>(70001, sum));
    }
  });
}

std::vector<NamedJob> network_jobs() {
  std::vector<NamedJob> jobs = {tests::shared_memory(3)};
  for (const int size : {1, 2, 3, 4, 6}) jobs.push_back(tests::put_only(size));
  for (const int size : {2, 3, 4}) jobs.push_back(tests::late(tests::put_only(size)));
  for (const auto& [hosts, ranks] : {std::pair{2, 2}, {2, 4}, {3, 2}, {4, 2}}) {
    jobs.push_back(tests::on_hosts(hosts, ranks));
  }
  jobs.push_back(tests::late(tests::on_hosts(2, 2)));
  for (const std::string algorithm : {"one_shot", "two_shot"}) {
    jobs.push_back(tests::with_algorithm(tests::put_only(3), algorithm));
  }
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkReducer, ::testing::ValuesIn(network_jobs()),
                         tests::name_of_job);

/// More buckets than there would be notifications if each needed some from every rank.
class ManyBuckets : public ::testing::TestWithParam<NamedJob> {};

TEST_P(ManyBuckets, HaveTheBitsOfTheTree) {
  constexpr std::size_t kNumBuckets = 1400;
  constexpr std::size_t kCount = 9;
  const auto expected = reduction_of(DType::float32, ReduceOp::sum, GetParam().job.size, kCount);
  run_job(GetParam().job, [&](Runtime& runtime) {
    std::vector<TensorSpec> specs;
    for (std::size_t i = 0; i < kNumBuckets; ++i) {
      specs.push_back({text("t", i), DType::float32, kCount});
    }
    GradientReducer reducer(runtime.world(), FusionPlan(specs, 0), "g");
    const auto input = input_of(DType::float32, runtime.environment().rank, kCount);
    std::vector<std::byte> out(input.size());
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < kNumBuckets; ++i) reducer.start(i, input.data(), 1.0);
      for (std::size_t i = 0; i < kNumBuckets; ++i) {
        reducer.finish(i, out.data());
        ASSERT_TRUE(out == expected) << "tensor " << i << ", step " << step;
      }
    }
  });
}

// With few counters, the buckets lie in several segments.
INSTANTIATE_TEST_SUITE_P(
    Networks, ManyBuckets,
    ::testing::Values(tests::with_algorithm(tests::put_only(8), "halving_doubling"),
                      tests::with_algorithm(tests::on_hosts(8, 2), "halving_doubling"),
                      tests::with_few_counters(tests::put_only(4), 1000),
                      tests::with_few_counters(tests::on_hosts(4, 2), 1000)),
    tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
