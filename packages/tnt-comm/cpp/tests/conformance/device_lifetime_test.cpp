#include <gtest/gtest.h>

#include <random>

#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::FakeCuda;
using tests::inputs_of;
using tests::plan_of;
using tests::Program;
using tests::run_job;
using tests::shared_memory;
using tests::Tensors;
using tests::with_engine;

TEST(DeviceLifetime, LeavesNothingBehind) {
  FakeCuda cuda({.num_devices = 3});
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    run_job(with_engine(shared_memory(3).job, engine), [&](Runtime& runtime) {
      const DeviceFinder device = device_finder(runtime.environment().rank);
      const GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g", device);
    });
  }
  EXPECT_EQ(cuda.num_left(), 0U);
}

TEST(DeviceLifetime, ManyOneAfterTheOtherNeedWhatOneNeeds) {
  FakeCuda cuda({.num_devices = 2});
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    run_job(with_engine(shared_memory(2).job, engine), [&](Runtime& runtime) {
      const int rank = runtime.environment().rank;
      Program program(cuda, rank);
      Tensors tensors(program, inputs_of(DType::float32, rank));
      std::mt19937 random(1);
      for (int i = 0; i < 50; ++i) {
        GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g",
                                program.device());
        const ForeignStream stream = i % 2 == 0 ? nullptr : program.stream();
        tensors.sum(reducer, random, stream);
      }
    });
    EXPECT_LT(cuda.num_kept(), 500U);
  }
}

}  // namespace
}  // namespace tnt::comm
