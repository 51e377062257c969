#include <gtest/gtest.h>

#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "tnt/comm/device/device.hpp"

namespace tnt::comm {
namespace {

using tests::FakeCuda;
using tests::FakeCudaSettings;

constexpr double kTimeoutS = 60;

std::shared_ptr<Device> device_of_test() {
  std::string reason;
  auto device = Device::find(0, reason);
  EXPECT_EQ(reason, "");
  return device;
}

class DeviceStreams : public ::testing::TestWithParam<unsigned> {
 protected:
  FakeCuda driver_{{.longest_delay = std::chrono::milliseconds(2), .seed = GetParam()}};
  std::shared_ptr<Device> device_ = device_of_test();
};

TEST_P(DeviceStreams, CopiesAreDoneInTheirOrder) {
  std::vector<int> values = {1, 2, 3};
  std::vector<int> copied(3);
  const std::size_t num_bytes = 3 * sizeof(int);
  DeviceBuffer first(device_, num_bytes);
  DeviceBuffer second(device_, num_bytes);
  DeviceStream stream(device_);
  stream.copy_from_host(first.data(), values.data(), num_bytes);
  stream.copy(second.data(), first.data(), num_bytes);
  stream.copy_to_host(copied.data(), second.data(), num_bytes);
  stream.synchronize(Deadline(kTimeoutS));
  EXPECT_EQ(copied, values);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceStreams, ::testing::Range(1U, 5U));

}  // namespace
}  // namespace tnt::comm
