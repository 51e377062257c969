#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gpu_program.hpp"
#include "networks.hpp"

namespace tnt::comm {
namespace {

using tests::Bytes;
using tests::FakeCuda;
using tests::gpu;
using tests::input_of;
using tests::kGpuCounts;
using tests::plan_of;
using tests::Program;
using tests::run_job;
using tests::shared_memory;
using tests::with_engine;

/// What all ranks sum by the CPUs, and by GPUs that add to each other.
struct BothSums {
  std::vector<Bytes> of_host;
  std::vector<Bytes> of_gpus;
};

template <typename InputOf>
BothSums sums_of_both(int size, const FusionPlan& plan, GpuSums engine,
                      const InputOf& input_of_rank, double scale) {
  BothSums both;
  FakeCuda cuda({.num_devices = size});
  run_job(with_engine(shared_memory(size).job, engine), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    Program program(cuda, rank);
    GradientReducer on_gpu(runtime.world(), plan, "gpu", program.device());
    GradientReducer on_host(runtime.world(), plan, "host");
    for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
      const Bytes input = input_of_rank(rank, i);
      on_host.start(i, input.data(), scale);
      const auto buffer = program.computed(input);
      on_gpu.start_on_device(i, buffer->data(), scale, program.stream());
      program.read(*buffer, 1);
    }
    for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
      Bytes of_host(plan.tensors()[i].num_bytes());
      on_host.finish(i, of_host.data());
      const auto out = program.allocate(of_host.size());
      on_gpu.finish_on_device(i, out->data(), program.stream());
      const Bytes of_gpus = program.read(*out, of_host.size());
      if (rank != size - 1) continue;
      both.of_host.push_back(of_host);
      both.of_gpus.push_back(of_gpus);
    }
  });
  return both;
}

class SpecialNumbers : public ::testing::TestWithParam<DType> {};

// Every pattern of bits of 16-bit numbers, and of the upper half of others, with others to add to:
// subnormal numbers, zeros of both signs, infinities, and NaNs of all kinds. At most one NaN in a
// place: which of two comes out of an addition is the choice of the compiler, on processors too.
Bytes patterns_of(DType dtype, int rank, int size) {
  constexpr std::size_t kCount = 1U << 16;
  const std::uint64_t infinity = std::uint64_t{dtype == DType::float16   ? 0x7c00U
                                               : dtype == DType::float64 ? 0x7ff0U
                                                                         : 0x7f80U}
                                 << 48U;
  Bytes bytes(kCount * size_of(dtype));
  std::mt19937_64 random(static_cast<unsigned>(rank));
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t upper = (i * (2 * static_cast<std::size_t>(rank) + 1) * 40503U) % kCount;
    std::uint64_t pattern = (upper << 48U) | (random() >> 16U);
    const bool has_nan_here = static_cast<int>(i % static_cast<std::size_t>(size)) == rank;
    if ((pattern & infinity) == infinity && !has_nan_here) pattern &= ~(infinity >> 1U);
    const auto* begin = reinterpret_cast<const std::byte*>(&pattern) + 8 - size_of(dtype);
    std::memcpy(bytes.data() + i * size_of(dtype), begin, size_of(dtype));
  }
  return bytes;
}

std::string first_difference(const BothSums& both, DType dtype) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < both.of_host[0].size(); i += size) {
    std::uint64_t host = 0, gpus = 0;
    std::memcpy(&host, both.of_host[0].data() + i, size);
    std::memcpy(&gpus, both.of_gpus[0].data() + i, size);
    if (host == gpus) continue;
    std::ostringstream words;
    words << std::hex << "element " << i / size << ": " << host << " on hosts, " << gpus
          << " on GPUs";
    return words.str();
  }
  return {};
}

TEST_P(SpecialNumbers, HaveTheBitsThatCpusGiveThem) {
  const FusionPlan plan({{"patterns", GetParam(), 1U << 16}}, 0);
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    for (const int size : {2, 3, 4}) {
      for (const double scale : {1.0, 0.3, 0.0}) {
        const BothSums both = sums_of_both(
            size, plan, engine,
            [&](int rank, std::size_t) { return patterns_of(GetParam(), rank, size); }, scale);
        EXPECT_EQ(first_difference(both, GetParam()), "")
            << size << " ranks, scale " << scale << (engine == GpuSums::host ? ", host" : ", ipc");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SpecialNumbers,
                         ::testing::Values(DType::float32, DType::float64, DType::float16,
                                           DType::bfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(DeviceBits, RoundsWhatTravelsAsTheHostDoes) {
  for (const DType wire : {DType::float16, DType::bfloat16}) {
    for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
      const BothSums both = sums_of_both(
          3, plan_of(DType::float32, 400, wire), engine,
          [](int rank, std::size_t i) { return input_of(DType::float32, rank, kGpuCounts[i]); },
          0.5);
      EXPECT_EQ(both.of_host, both.of_gpus);
    }
  }
}

}  // namespace
}  // namespace tnt::comm
