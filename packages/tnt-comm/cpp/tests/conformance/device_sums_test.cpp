#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::Bytes;
using tests::expected_sums;
using tests::FakeCuda;
using tests::inputs_of;
using tests::late;
using tests::NamedJob;
using tests::on_hosts;
using tests::plan_of;
using tests::Program;
using tests::put_only;
using tests::run_job;
using tests::shared_memory;
using tests::Tensors;
using tests::with_engine;
using tests::with_tree;

struct Sums {
  NamedJob job;
  GpuSums engine;
};

std::ostream& operator<<(std::ostream& stream, const Sums& sums) {
  return stream << sums.job.name;
}

class DeviceSums : public ::testing::TestWithParam<Sums> {};

TEST_P(DeviceSums, HaveTheBitsOfTheTreeForAllTypesAndBucketPlans) {
  const auto& [named, engine] = GetParam();
  const int size = named.job.size;
  FakeCuda cuda({.num_devices = size});
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const std::vector<Bytes> expected = expected_sums(dtype, size, named.job.sum_tree);
    run_job(with_engine(named.job, engine), [&](Runtime& runtime) {
      const int rank = runtime.environment().rank;
      Program program(cuda, rank);
      Tensors tensors(program, inputs_of(dtype, rank));
      std::mt19937 random(static_cast<unsigned>(rank));
      for (const std::size_t threshold : {0, 400, 1 << 30}) {
        GradientReducer reducer(runtime.world(), plan_of(dtype, threshold), "g", program.device());
        for (int step = 0; step < 2; ++step) {
          EXPECT_EQ(tensors.sum(reducer, random, program.stream()), expected);
        }
      }
    });
  }
}

TEST_P(DeviceSums, AreRightHoweverLateTheGpusAre) {
  const auto& [named, engine] = GetParam();
  const int size = named.job.size;
  const std::vector<Bytes> expected = expected_sums(DType::float32, size, named.job.sum_tree);
  FakeCuda cuda({.num_devices = size, .longest_delay = std::chrono::microseconds(200)});
  run_job(with_engine(named.job, engine), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    Program program(cuda, rank);
    Tensors tensors(program, inputs_of(DType::float32, rank));
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g", program.device());
    std::mt19937 random(static_cast<unsigned>(rank));
    constexpr int kNumSchedules = 25;  // of each of the jobs, 500 in all
    for (int step = 0; step < kNumSchedules; ++step) {
      // A stream that nobody names is waited for as well.
      const ForeignStream stream = step % 3 == 0 ? nullptr : program.stream();
      EXPECT_EQ(tensors.sum(reducer, random, stream), expected);
    }
  });
}

std::vector<Sums> all_sums() {
  std::vector<Sums> result;
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8}) {
    result.push_back({shared_memory(size), GpuSums::host});
    result.push_back({shared_memory(size), GpuSums::automatic});
  }
  result.push_back({put_only(3), GpuSums::automatic});
  result.push_back({on_hosts(2, 2), GpuSums::automatic});
  result.push_back({on_hosts(2, 3), GpuSums::host});
  result.push_back({with_tree(on_hosts(2, 3), {3, 2}), GpuSums::automatic});
  result.push_back({late(on_hosts(3, 2)), GpuSums::automatic});
  result.push_back({on_hosts(2, 4), GpuSums::automatic});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceSums, ::testing::ValuesIn(all_sums()), [](const auto& info) {
  return info.param.job.name + (info.param.engine == GpuSums::host ? "_host" : "_auto");
});

}  // namespace
}  // namespace tnt::comm
