#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tnt/comm/device/device.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm::tests {

using HostArray = std::vector<std::byte>;

inline constexpr double kDeviceTimeoutS = 60;

inline std::shared_ptr<Device> device_of_test(int ordinal = 0) {
  std::string reason;
  auto device = Device::find(ordinal, reason);
  EXPECT_EQ(reason, "");
  return device;
}

/// An array in memory of a GPU, so many bytes behind a multiple of 256.
class OnDevice {
 public:
  OnDevice(DeviceStream& stream, const HostArray& content, std::size_t offset)
      : offset_(offset),
        num_bytes_(content.size()),
        buffer_(device_of_test(), offset + content.size()) {
    stream.copy_from_host(data(), content.data(), content.size());
    stream.synchronize(Deadline(kDeviceTimeoutS));
  }

  DevicePointer data() const { return buffer_.data() + offset_; }

  HostArray read(DeviceStream& stream) const {
    HostArray content(num_bytes_);
    stream.copy_to_host(content.data(), data(), num_bytes_);
    stream.synchronize(Deadline(kDeviceTimeoutS));
    return content;
  }

 private:
  std::size_t offset_;
  std::size_t num_bytes_;
  DeviceBuffer buffer_;
};

inline HostArray sum_on_host(const SumTree& tree, DType dtype,
                             const std::vector<HostArray>& sources) {
  std::vector<const std::byte*> pointers;
  for (const HostArray& source : sources) pointers.push_back(source.data());
  HostArray sum(sources.front().size());
  TreeReducer(dtype, ReduceOp::sum, tree)
      .reduce(sum.data(), pointers.data(), pointers.size(), sum.size() / size_of(dtype));
  return sum;
}

/// How NaNs are compared.
enum class Nans { by_bits, any };

/// As float64, to find NaNs.
inline double element_of(DType dtype, const HostArray& array, std::size_t index) {
  const std::byte* element = array.data() + index * size_of(dtype);
  double value = 0;
  float single = 0;
  if (dtype == DType::float64) {
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  if (dtype == DType::float32) {
    std::memcpy(&single, element, sizeof single);
  } else {
    unpack_widened(&single, element, 1, dtype);
  }
  return single;
}

/// Sums on the GPU, to two places, all of them so many elements behind a multiple of 256 bytes.
inline void expect_sum(DeviceStream& stream, const SumTree& tree, DType dtype,
                       const std::vector<HostArray>& sources, std::size_t offset,
                       Nans nans = Nans::by_bits) {
  const HostArray expected = sum_on_host(tree, dtype, sources);
  const std::size_t count = expected.size() / size_of(dtype);
  // One behind the other, and behind them the two places.
  const std::size_t stride = (expected.size() + 255) / 256 * 256;
  HostArray content(stride * (sources.size() + 2));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::ranges::copy(sources[i], content.begin() + static_cast<std::ptrdiff_t>(i * stride));
  }
  const OnDevice all(stream, content, offset * size_of(dtype));
  std::vector<DevicePointer> places;
  for (std::size_t i = 0; i < sources.size() + 2; ++i) places.push_back(all.data() + i * stride);
  const auto targets = std::span(places).last(2);
  stream.sum({std::span(places).first(sources.size()), targets, dtype, count}, tree);
  const HostArray read = all.read(stream);
  const auto first = read.end() - static_cast<std::ptrdiff_t>(2 * stride);
  const auto second = read.end() - static_cast<std::ptrdiff_t>(stride);
  const auto num_bytes = static_cast<std::ptrdiff_t>(expected.size());
  HostArray sum(first, first + num_bytes);
  EXPECT_EQ(sum, HostArray(second, second + num_bytes));
  for (std::size_t i = 0; nans == Nans::any && i < count; ++i) {
    if (std::isnan(element_of(dtype, sum, i)) && std::isnan(element_of(dtype, expected, i))) {
      const std::size_t begin = i * size_of(dtype);
      std::memcpy(sum.data() + begin, expected.data() + begin, size_of(dtype));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * size_of(dtype);
    ASSERT_EQ(0, std::memcmp(sum.data() + begin, expected.data() + begin, size_of(dtype)))
        << "element " << i << " of " << sources.size() << " arrays of " << name_of(dtype) << ": "
        << element_of(dtype, sum, i) << ", not " << element_of(dtype, expected, i);
  }
}

}  // namespace tnt::comm::tests
