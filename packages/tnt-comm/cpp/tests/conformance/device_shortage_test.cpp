#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "captured_stderr.hpp"
#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::CapturedStderr;
using tests::FakeCuda;
using tests::input_of;
using tests::Job;
using tests::name_of_job;
using tests::NamedJob;
using tests::on_hosts;
using tests::Program;
using tests::reduction_of;
using tests::run_job;
using tests::shared_memory;
using tests::Tensors;

constexpr std::size_t kCounts[] = {5000, 17};

/// What each rank says of its reducer. Its sums are compared.
std::vector<DeviceEngine> engines_after_failure(const Job& job, const char* function, int number) {
  std::vector<DeviceEngine> engines(static_cast<std::size_t>(job.size));
  FakeCuda cuda({.num_devices = job.size});
  run_job(job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    Program program(cuda, rank);
    std::vector<TensorSpec> specs;
    std::vector<tests::Bytes> values, expected;
    for (const std::size_t count : kCounts) {
      specs.push_back({text("t", count), DType::bfloat16, count});
      values.push_back(input_of(DType::bfloat16, rank, count));
      expected.push_back(reduction_of(DType::bfloat16, ReduceOp::sum, job.size, count));
    }
    Tensors tensors(program, values);
    runtime.world()->start(Call{})->wait(0);
    if (rank == 0) cuda.fail(function, number, cuda::kOutOfMemory);
    runtime.world()->start(Call{})->wait(0);
    GradientReducer reducer(runtime.world(), {specs, 0}, "g", program.device());
    engines[static_cast<std::size_t>(rank)] = reducer.device_engine().value();
    EXPECT_TRUE(reducer.is_on_device());
    std::mt19937 random(1);
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(tensors.sum(reducer, random, program.stream()), expected);
    }
  });
  EXPECT_EQ(cuda.num_left(), static_cast<std::size_t>(job.size));  // the streams of the programs
  return engines;
}

class DeviceShortage : public ::testing::TestWithParam<NamedJob> {};

TEST_P(DeviceShortage, OfOneRankLeavesSumsToTheHostsWhateverItLacks) {
  const Job& job = GetParam().job;
  for (const char* function : {"cuMemAlloc_v2", "cuStreamCreate", "cuEventCreate"}) {
    int number = 1;
    for (;; ++number) {  // until the creation makes do with less
      const CapturedStderr stderr_of_ranks;
      const std::vector<DeviceEngine> engines = engines_after_failure(job, function, number);
      for (const DeviceEngine& engine : engines) EXPECT_EQ(engine.reason, engines[0].reason);
      if (engines[0].engine == GpuSums::ipc) break;
      EXPECT_NE(engines[0].reason.find(function), std::string::npos) << engines[0].reason;
      EXPECT_NE(stderr_of_ranks.text().find("[gpu-memory-short]"), std::string::npos);
    }
    EXPECT_GT(number, job.size) << function;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceShortage, ::testing::Values(shared_memory(2), on_hosts(2, 2)),
                         name_of_job);

}  // namespace
}  // namespace tnt::comm
