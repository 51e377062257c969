#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::FakeCuda;
using tests::gpu;
using tests::input_of;
using tests::plan_of;
using tests::Program;
using tests::run_job;
using tests::shared_memory;
using tests::with_engine;

TEST(DeviceFailure, AGpuThatCannotBeUsedEndsTheCreationOnAllRanks) {
  FakeCuda cuda({.num_devices = 2});
  cuda.fail("cuDevicePrimaryCtxRetain", 1, cuda::kOutOfMemory);
  run_job(shared_memory(2).job, [&](Runtime& runtime) {
    const Error error = error_of([&] {
      const GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g",
                                    device_finder(runtime.environment().rank));
    });
    EXPECT_NE(std::string(error.what()).find("cuDevicePrimaryCtxRetain"), std::string::npos)
        << error.what();
  });
}

TEST(DeviceFailure, AnErrorOfTheDriverEndsTheWaitOfAllRanks) {
  for (const char* function : {"cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuEventQuery"}) {
    FakeCuda cuda({.num_devices = 2});
    run_job(with_engine(shared_memory(2).job, GpuSums::host), [&](Runtime& runtime) {
      const int rank = runtime.environment().rank;
      Program program(cuda, rank);
      const FusionPlan plan({{"t", DType::float32, 100}}, 0);
      GradientReducer reducer(runtime.world(), plan, "g", program.device());
      const auto buffer = program.computed(input_of(DType::float32, rank, 100));
      runtime.world()->start(Call{})->wait(0);
      if (rank == 0) cuda.fail(function, 1, cuda::kLaunchFailed);
      runtime.world()->start(Call{})->wait(0);
      const Error error = error_of([&] {
        reducer.start_on_device(0, buffer->data(), 0.5, program.stream());
        reducer.finish_on_device(0, buffer->data(), program.stream());
      });
      EXPECT_NE(std::string(error.what()).find(function), std::string::npos) << error.what();
    });
  }
}

TEST(DeviceFailure, AGpuThatHangsEndsInATimeoutThatNamesIt) {
  FakeCuda cuda({.num_devices = 2, .release_limit_s = 0.1});
  run_job(with_engine(shared_memory(2).job, GpuSums::host), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    Program program(cuda, rank);
    const FusionPlan plan({{"t", DType::float32, 100}}, 0);
    GradientReducer reducer(runtime.world(), plan, "g", program.device());
    const auto buffer = program.computed(input_of(DType::float32, rank, 100));
    runtime.world()->start(Call{})->wait(0);
    if (rank == 0) cuda.hang();
    runtime.world()->start(Call{})->wait(0);
    reducer.start_on_device(0, buffer->data(), 1.0, program.stream());
    const Error error =
        error_of([&] { reducer.finish_on_device(0, buffer->data(), program.stream(), 0.3); });
    const std::string found = error.what();
    const bool is_other_named = rank == 1 && found.find("rank 0") != std::string::npos;
    EXPECT_TRUE(is_other_named || found.find("its GPU") != std::string::npos) << found;
    runtime.finish();
    if (rank == 0) cuda.let_go();
  });
}

/// The engine is the last who has the bucket, and ends it.
TEST(DeviceFailure, AGpuThatHangsHoldsUpNoOtherCollectives) {
  constexpr double kReleaseLimitS = 20;
  FakeCuda cuda({.num_devices = 2, .release_limit_s = kReleaseLimitS});
  std::vector<std::shared_ptr<Device>> devices = {gpu(0), gpu(1)};
  run_job(with_engine(shared_memory(2).job, GpuSums::host), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const auto barrier = [&] { runtime.world()->start(Call{})->wait(0); };
    Program program(cuda, rank);
    const auto group = Group::create(runtime, {0, 1}, "gpus");
    const FusionPlan plan({{"t", DType::float32, 100}}, 0);
    auto reducer = std::make_unique<GradientReducer>(group, plan, "g", program.device());
    const auto buffer = program.computed(input_of(DType::float32, rank, 100));
    program.synchronize();
    barrier();
    if (rank == 0) cuda.hang();
    barrier();
    reducer->start_on_device(0, buffer->data(), 1.0, program.stream());
    reducer.reset();
    barrier();
    group->abort_state()->fail({ErrorKind::comm, "on purpose"});
    const Deadline deadline(kReleaseLimitS / 2);
    for (int i = 0; i < 50; ++i) {  // the engine looks at what has failed meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      barrier();
    }
    EXPECT_FALSE(deadline.is_over());
    if (rank == 0) cuda.let_go();
  });
  for (auto& device : devices) {
    while (device.use_count() > 1) std::this_thread::yield();  // until the bucket has ended
    device.reset();
  }
  EXPECT_EQ(cuda.num_left(), 2U);  // the streams of the programs
}

TEST(DeviceFailure, CallsForAGpuNeedOne) {
  run_job(shared_memory(1).job, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g");
    EXPECT_THROW(reducer.start_on_device(0, 4096, 1.0, nullptr), UsageError);
    EXPECT_FALSE(reducer.device_engine());
  });
}

}  // namespace
}  // namespace tnt::comm
