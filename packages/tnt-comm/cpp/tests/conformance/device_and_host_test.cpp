#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::Bytes;
using tests::FakeCuda;
using tests::input_of;
using tests::kGpuCounts;
using tests::plan_of;
using tests::Program;
using tests::reduction_of;
using tests::run_job;
using tests::shared_memory;
using tests::with_engine;

TEST(DeviceAndHost, TakesAndGivesTensorsOfTheHostToo) {
  FakeCuda cuda({.num_devices = 2});
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    run_job(with_engine(shared_memory(2).job, engine), [&](Runtime& runtime) {
      const int rank = runtime.environment().rank;
      Program program(cuda, rank);
      GradientReducer reducer(runtime.world(), plan_of(DType::float32, 1 << 30), "g",
                              program.device());
      for (std::size_t i = 0; i < kGpuCounts.size(); ++i) {
        const Bytes input = input_of(DType::float32, rank, kGpuCounts[i]);
        if ((i + static_cast<std::size_t>(rank)) % 2 == 0) {
          reducer.start(i, input.data(), 1.0);
        } else {
          reducer.start_on_device(i, program.computed(input)->data(), 1.0, program.stream());
        }
      }
      for (std::size_t i = 0; i < kGpuCounts.size(); ++i) {
        EXPECT_FALSE(reducer.lend(i));
        Bytes sum(kGpuCounts[i] * sizeof(float));
        reducer.finish(i, sum.data());
        EXPECT_EQ(sum, reduction_of(DType::float32, ReduceOp::sum, 2, kGpuCounts[i]));
      }
    });
  }
}

TEST(DeviceAndHost, AnswersInTheMemoryOfTheOtherSideStepAfterStep) {
  FakeCuda cuda({.num_devices = 2, .longest_delay = std::chrono::microseconds(300)});
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    run_job(with_engine(shared_memory(2).job, engine), [&](Runtime& runtime) {
      const int rank = runtime.environment().rank;
      Program program(cuda, rank);
      constexpr std::size_t kCount = 5000;
      const FusionPlan plan({{"t", DType::float32, kCount}}, 0);
      GradientReducer reducer(runtime.world(), plan, "g", program.device());
      const auto out = program.allocate(kCount * sizeof(float));
      for (int step = 0; step < 6; ++step) {
        const std::vector<float> values(kCount, static_cast<float>(step));
        reducer.start(0, values.data(), 1.0);
        reducer.finish_on_device(0, out->data(), program.stream());
        // The copy may still be in the stream when the next step is packed.
        const std::vector<float> next(kCount, static_cast<float>(-step));
        reducer.start(0, next.data(), 1.0);
        const Bytes sum = program.read(*out, kCount * sizeof(float));
        const std::vector<float> expected(kCount, 2 * static_cast<float>(step));
        EXPECT_EQ(std::memcmp(sum.data(), expected.data(), sum.size()), 0) << "step " << step;
        std::vector<float> of_host(kCount);
        reducer.finish(0, of_host.data());
        EXPECT_EQ(of_host, std::vector<float>(kCount, -2 * static_cast<float>(step)));
      }
    });
  }
}

}  // namespace
}  // namespace tnt::comm
