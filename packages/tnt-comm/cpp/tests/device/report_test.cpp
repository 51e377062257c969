#include <gtest/gtest.h>

#include "errors.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "tnt/comm/device/device.hpp"

namespace tnt::comm {
namespace {

using tests::FakeCuda;

TEST(DeviceReports, HaveAllDevicesAndWhoReachesWhom) {
  FakeCuda driver({.num_devices = 2, .can_reach = {{true, true}, {false, true}}, .version = 12080});
  const DeviceReport report = describe_devices();
  EXPECT_EQ(report.reason, "");
  EXPECT_EQ(report.driver_version, 12080);
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[1].name, "Stand-in GPU");
  EXPECT_EQ(report.devices[1].pci_address, "0000:02:00.0");
  EXPECT_EQ(report.devices[1].uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e01");
  EXPECT_EQ(report.devices[1].total_bytes, 4294967296U);
  EXPECT_EQ(report.can_reach, (std::vector<std::vector<bool>>{{true, true}, {false, true}}));
  EXPECT_EQ(driver.num_left(), 0U);  // no context was made
}

TEST(DeviceReports, SayWhyThereIsNoDevice) {
  FakeCuda driver({.num_devices = 0});
  const DeviceReport report = describe_devices();
  EXPECT_EQ(report.reason, "The CUDA driver finds no GPU.");
  EXPECT_TRUE(report.devices.empty());
}

TEST(DeviceReports, NameTheQuestionThatTheDriverDoesNotAnswer) {
  FakeCuda driver;
  driver.fail("cuDeviceGetUuid_v2", 1, cuda::kInvalidValue);
  EXPECT_STREQ(
      tests::error_of([] { describe_devices(); }).what(),
      "CUDA's cuDeviceGetUuid_v2 has failed with CUDA_ERROR_INVALID_VALUE (invalid argument).");
}

}  // namespace
}  // namespace tnt::comm
