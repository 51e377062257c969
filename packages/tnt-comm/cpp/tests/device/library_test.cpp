#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "errors.hpp"
#include "tnt/comm/device/device.hpp"
#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm {
namespace {

constexpr LibraryNames kNames = {"CUDA driver", "TNT_CUDA_LIBRARY", " Remedy."};

TEST(DriverLibrary, HasTheFunctionsOfTheTable) {
  const SharedLibrary library = open_library(kNames, {TNT_FAKE_CUDA_LIBRARY}, {});
  const cuda::Functions driver{.from = library};
  EXPECT_EQ(driver.init.call(0), cuda::kSuccess);
  int count = 0;
  EXPECT_EQ(driver.device_get_count.call(&count), cuda::kSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_NE(driver.ctx_wait_event.call, nullptr);
}

TEST(DriverLibrary, OfOtherFunctionsIsNone) {
  std::string reasons;
  const auto library = find_library(kNames, {"libm.so.6"}, reasons);
  ASSERT_TRUE(library.has_value()) << reasons;
  EXPECT_STREQ(
      tests::error_of([&] { cuda::Functions{.from = *library}; }).what(),
      "The library 'libm.so.6' has no function cuInit, so it is not a complete CUDA driver."
      " Remedy.");
}

TEST(DriverLibrary, MayLackFunctionsThatAreNewer) {
  const SharedLibrary library = open_library(kNames, {"libm.so.6"}, {});
  EXPECT_EQ(library.find("cuCtxRecordEvent").address, nullptr);
}

// Sets the variable while it lives.
class StatedLibrary {
 public:
  explicit StatedLibrary(const char* path) { ::setenv("TNT_CUDA_LIBRARY", path, 1); }
  ~StatedLibrary() { ::unsetenv("TNT_CUDA_LIBRARY"); }
  StatedLibrary(StatedLibrary&&) = delete;
};

std::string reason_of_no_device() {
  std::string reason;
  EXPECT_EQ(Device::find(0, reason), nullptr);
  return reason;
}

// In this order, since a driver that is open stays so.
TEST(StatedDriver, IsTheOneThatIsOpened) {
  {
    const StatedLibrary stated("/nowhere/libcuda.so.1");
    const std::string reason = reason_of_no_device();
    EXPECT_TRUE(reason.starts_with("TNT_CUDA_LIBRARY='/nowhere/libcuda.so.1' cannot be loaded ("))
        << reason;
    EXPECT_TRUE(reason.ends_with("No such file or directory).")) << reason;
  }
  {
    const StatedLibrary stated("libm.so.6");
    EXPECT_TRUE(
        reason_of_no_device().starts_with("The library 'libm.so.6' has no function cuInit"));
  }
  const StatedLibrary stated(TNT_FAKE_CUDA_LIBRARY);
  std::string reason;
  const auto device = Device::find(0, reason);
  ASSERT_NE(device, nullptr) << reason;
  EXPECT_EQ(device->name(), "Stand-in GPU");
  DeviceStream(device).synchronize(Deadline(60));
}

}  // namespace
}  // namespace tnt::comm
