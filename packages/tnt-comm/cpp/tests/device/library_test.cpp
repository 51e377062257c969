#include <gtest/gtest.h>

#include "errors.hpp"
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

}  // namespace
}  // namespace tnt::comm
