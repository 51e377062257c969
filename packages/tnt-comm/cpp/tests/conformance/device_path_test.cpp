#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>

#include "errors.hpp"
#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::Bytes;
using tests::error_of;
using tests::expected_sums;
using tests::FakeCuda;
using tests::input_of;
using tests::inputs_of;
using tests::kGpuCounts;
using tests::plan_of;
using tests::Program;
using tests::put_only;
using tests::run_job;
using tests::shared_memory;
using tests::Tensors;
using tests::with_engine;

/// Tensors that lie in the memory of the host, wherever the reducer has its buckets.
void expect_sums_of_host_tensors(GradientReducer& reducer, int rank, int size) {
  const std::vector<Bytes> expected = expected_sums(DType::float32, size);
  for (std::size_t i = 0; i < kGpuCounts.size(); ++i) {
    reducer.start(i, input_of(DType::float32, rank, kGpuCounts[i]).data(), 1.0);
  }
  for (std::size_t i = 0; i < kGpuCounts.size(); ++i) {
    Bytes sum(kGpuCounts[i] * sizeof(float));
    reducer.finish(i, sum.data());
    EXPECT_EQ(sum, expected[i]);
  }
}

TEST(DevicePath, AGpuWithoutMemoryLeavesItsTensorsToTheHost) {
  FakeCuda cuda({.num_devices = 2});
  cuda.fail("cuMemAlloc_v2", 1, cuda::kOutOfMemory);
  std::atomic<int> num_on_device{0};
  run_job(with_engine(shared_memory(2).job, GpuSums::host), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g",
                            device_finder(rank));
    num_on_device += reducer.is_on_device() ? 1 : 0;
    expect_sums_of_host_tensors(reducer, rank, 2);
  });
  EXPECT_EQ(num_on_device, 1);
}

TEST(DevicePath, WorksWithRanksThatHaveNoGpu) {
  FakeCuda cuda;
  run_job(shared_memory(3).job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const bool has_gpu = rank == 1;
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g",
                            device_finder(has_gpu ? 0 : -1));
    EXPECT_EQ(reducer.is_on_device(), has_gpu);
    EXPECT_EQ(reducer.device_engine()->reason, "rank 0: it has no GPU");
    expect_sums_of_host_tensors(reducer, rank, 3);
  });
}

TEST(DevicePath, GpusThatDoNotReachEachOtherLeaveSumsToTheHost) {
  FakeCuda cuda({.num_devices = 2, .can_reach = {{true, false}, {true, true}}});
  run_job(shared_memory(2).job, [&](Runtime& runtime) {
    const DeviceFinder device = device_finder(runtime.environment().rank);
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g", device);
    EXPECT_EQ(reducer.device_engine()->engine, GpuSums::host);
    EXPECT_NE(reducer.device_engine()->reason.find("rank 0: its GPU"), std::string::npos);
  });
}

TEST(DevicePath, SumsBetweenGpusThatCannotBeHadAreRefusedOnAllRanks) {
  FakeCuda cuda({.num_devices = 3});
  run_job(with_engine(put_only(3).job, GpuSums::ipc), [&](Runtime& runtime) {
    const DeviceFinder device = device_finder(runtime.environment().rank);
    const Error error = error_of([&] {
      const GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g", device);
    });
    EXPECT_NE(std::string(error.what()).find("each is on a host of its own"), std::string::npos);
  });
}

TEST(DevicePath, ADriverThatRefusesToShareMemoryLeavesSumsToTheHost) {
  FakeCuda cuda({.num_devices = 2});
  cuda.fail("cuIpcOpenMemHandle_v2", 1, cuda::kInvalidValue);
  run_job(shared_memory(2).job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    Program program(cuda, rank);
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g", program.device());
    EXPECT_EQ(reducer.device_engine()->engine, GpuSums::host);
    EXPECT_NE(reducer.device_engine()->reason.find("cuIpcOpenMemHandle"), std::string::npos);
    std::mt19937 random(1);
    Tensors tensors(program, inputs_of(DType::float32, rank));
    EXPECT_EQ(tensors.sum(reducer, random, program.stream()), expected_sums(DType::float32, 2));
  });
}

}  // namespace
}  // namespace tnt::comm
