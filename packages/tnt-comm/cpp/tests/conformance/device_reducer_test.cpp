#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "errors.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "networks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"
#include "typed_reference.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::FakeCuda;
using tests::input_of;
using tests::Job;
using tests::late;
using tests::NamedJob;
using tests::on_hosts;
using tests::put_only;
using tests::reduction_of;
using tests::run_job;
using tests::shared_memory;
using tests::with_tree;

using Bytes = std::vector<std::byte>;

const std::vector<std::size_t> kGpuCounts = {94, 17, 2, 0, 1, 5000, 40009, 33};

FusionPlan plan_of(DType dtype, std::size_t threshold_bytes,
                   std::optional<DType> wire_dtype = std::nullopt) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : kGpuCounts) {
    tensors.push_back({text("t", tensors.size()), dtype, count});
  }
  return {tensors, threshold_bytes, wire_dtype};
}

std::shared_ptr<Device> gpu(int ordinal) {
  std::string reason;
  auto device = Device::find(ordinal, reason);
  EXPECT_TRUE(device) << reason;
  return device;
}

/// A program that computes on a GPU, in a stream of its own.
class Program {
 public:
  Program(FakeCuda& cuda, int ordinal)
      : device_(gpu(ordinal)), stream_(device_, cuda.make_stream(ordinal)) {}

  DeviceFinder device() const {
    return [device = device_] { return device; };
  }
  ForeignStream stream() const { return stream_.get(); }

  std::unique_ptr<DeviceBuffer> allocate(std::size_t num_bytes) {
    return std::make_unique<DeviceBuffer>(device_, std::max<std::size_t>(num_bytes, 1));
  }
  void compute(const DeviceBuffer& buffer, const Bytes& values) {
    stream_.copy_from_host(buffer.data(), values.data(), values.size());
  }
  std::unique_ptr<DeviceBuffer> computed(const Bytes& values) {
    auto buffer = allocate(values.size());
    compute(*buffer, values);
    return buffer;
  }
  /// Without waiting.
  void fetch(Bytes& values, const DeviceBuffer& buffer) {
    stream_.copy_to_host(values.data(), buffer.data(), values.size());
  }
  Bytes read(const DeviceBuffer& buffer, std::size_t num_bytes) {
    Bytes values(num_bytes);
    fetch(values, buffer);
    synchronize();
    return values;
  }
  void synchronize() { stream_.synchronize(Deadline(30)); }

 private:
  std::shared_ptr<Device> device_;
  DeviceStream stream_;
};

/// What a rank of a test sums again and again: tensors, and places for their sums.
class Tensors {
 public:
  Tensors(Program& program, std::vector<Bytes> values)
      : program_(program), values_(std::move(values)) {
    for (const Bytes& each : values_) {
      in_.push_back(program.allocate(each.size()));
      out_.push_back(program.allocate(each.size()));
    }
  }

  /// Starts and finishes all in random orders.
  std::vector<Bytes> sum(GradientReducer& reducer, std::mt19937& random, ForeignStream stream) {
    for (const std::size_t i : shuffled(random)) {
      program_.compute(*in_[i], values_[i]);
      reducer.start_on_device(i, in_[i]->data(), 1.0, stream);
      // The memory may be used for what is computed later in the stream.
      program_.compute(*in_[i], Bytes(values_[i].size(), std::byte{0x5a}));
    }
    std::vector<Bytes> sums;
    for (const Bytes& each : values_) sums.emplace_back(each.size());
    for (const std::size_t i : shuffled(random)) {
      reducer.finish_on_device(i, out_[i]->data(), stream);
      program_.fetch(sums[i], *out_[i]);
    }
    program_.synchronize();
    return sums;
  }

 private:
  std::vector<std::size_t> shuffled(std::mt19937& random) const {
    std::vector<std::size_t> order(values_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    return order;
  }

  Program& program_;
  std::vector<Bytes> values_;
  std::vector<std::unique_ptr<DeviceBuffer>> in_;
  std::vector<std::unique_ptr<DeviceBuffer>> out_;
};

std::vector<Bytes> inputs_of(DType dtype, int rank) {
  std::vector<Bytes> inputs;
  for (const std::size_t count : kGpuCounts) inputs.push_back(input_of(dtype, rank, count));
  return inputs;
}

struct Sums {
  NamedJob job;
  GpuSums engine;
};

std::ostream& operator<<(std::ostream& stream, const Sums& sums) {
  return stream << sums.job.name;
}

Job with_engine(Job job, GpuSums engine) {
  job.change = [engine](Environment& environment) { environment.gpu_sums = engine; };
  return job;
}

class DeviceSums : public ::testing::TestWithParam<Sums> {};

std::vector<Bytes> expected_sums(DType dtype, int size, const std::vector<int>& sum_tree = {}) {
  std::vector<Bytes> expected;
  for (const std::size_t count : kGpuCounts) {
    expected.push_back(reduction_of(dtype, ReduceOp::sum, size, count, sum_tree));
  }
  return expected;
}

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

TEST(DeviceReducer, RoundsWhatTravelsAsTheHostDoes) {
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

TEST(DeviceReducer, TakesAndGivesTensorsOfTheHostToo) {
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

TEST(DeviceReducer, AnswersInTheMemoryOfTheOtherSideStepAfterStep) {
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

TEST(DeviceReducer, AGpuWithoutMemoryLeavesItsTensorsToTheHost) {
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

TEST(DeviceReducer, AGpuThatCannotBeUsedEndsTheCreationOnAllRanks) {
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

TEST(DeviceReducer, WorksWithRanksThatHaveNoGpu) {
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

TEST(DeviceReducer, GpusThatDoNotReachEachOtherLeaveSumsToTheHost) {
  FakeCuda cuda({.num_devices = 2, .can_reach = {{true, false}, {true, true}}});
  run_job(shared_memory(2).job, [&](Runtime& runtime) {
    const DeviceFinder device = device_finder(runtime.environment().rank);
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g", device);
    EXPECT_EQ(reducer.device_engine()->engine, GpuSums::host);
    EXPECT_NE(reducer.device_engine()->reason.find("rank 0: its GPU"), std::string::npos);
  });
}

TEST(DeviceReducer, SumsBetweenGpusThatCannotBeHadAreRefusedOnAllRanks) {
  FakeCuda cuda({.num_devices = 3});
  run_job(with_engine(put_only(3).job, GpuSums::ipc), [&](Runtime& runtime) {
    const DeviceFinder device = device_finder(runtime.environment().rank);
    const Error error = error_of([&] {
      const GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g", device);
    });
    EXPECT_NE(std::string(error.what()).find("each is on a host of its own"), std::string::npos);
  });
}

TEST(DeviceReducer, ADriverThatRefusesToShareMemoryLeavesSumsToTheHost) {
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

TEST(DeviceReducer, AnErrorOfTheDriverEndsTheWaitOfAllRanks) {
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

TEST(DeviceReducer, AGpuThatHangsEndsInATimeoutThatNamesIt) {
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

TEST(DeviceReducer, LeavesNothingBehind) {
  FakeCuda cuda({.num_devices = 3});
  for (const GpuSums engine : {GpuSums::host, GpuSums::ipc}) {
    run_job(with_engine(shared_memory(3).job, engine), [&](Runtime& runtime) {
      const DeviceFinder device = device_finder(runtime.environment().rank);
      const GradientReducer reducer(runtime.world(), plan_of(DType::float32, 400), "g", device);
    });
  }
  EXPECT_EQ(cuda.num_left(), 0U);
}

TEST(DeviceReducer, ManyOneAfterTheOtherNeedWhatOneNeeds) {
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

TEST(DeviceReducer, CallsForAGpuNeedOne) {
  run_job(shared_memory(1).job, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), plan_of(DType::float32, 0), "g");
    EXPECT_THROW(reducer.start_on_device(0, 4096, 1.0, nullptr), UsageError);
    EXPECT_FALSE(reducer.device_engine());
  });
}

}  // namespace
}  // namespace tnt::comm
