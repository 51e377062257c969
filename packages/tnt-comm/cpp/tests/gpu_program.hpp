#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "thread_ranks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"
#include "typed_reference.hpp"

// Programs that compute on GPUs, and have what they compute summed.

namespace tnt::comm::tests {

using Bytes = std::vector<std::byte>;

inline const std::vector<std::size_t> kGpuCounts = {94, 17, 2, 0, 1, 5000, 40009, 33};

inline FusionPlan plan_of(DType dtype, std::size_t threshold_bytes,
                          std::optional<DType> wire_dtype = std::nullopt) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : kGpuCounts) {
    tensors.push_back({text("t", tensors.size()), dtype, count});
  }
  return {tensors, threshold_bytes, wire_dtype};
}

inline std::shared_ptr<Device> gpu(int ordinal) {
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

inline std::vector<Bytes> inputs_of(DType dtype, int rank) {
  std::vector<Bytes> inputs;
  for (const std::size_t count : kGpuCounts) inputs.push_back(input_of(dtype, rank, count));
  return inputs;
}

inline std::vector<Bytes> expected_sums(DType dtype, int size,
                                        const std::vector<int>& sum_tree = {}) {
  std::vector<Bytes> expected;
  for (const std::size_t count : kGpuCounts) {
    expected.push_back(reduction_of(dtype, ReduceOp::sum, size, count, sum_tree));
  }
  return expected;
}

inline Job with_engine(Job job, GpuSums engine) {
  job.change = [engine](Environment& environment) { environment.gpu_sums = engine; };
  return job;
}

}  // namespace tnt::comm::tests
