#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "device/memory_of_test.hpp"
#include "errors.hpp"
#include "fake_cuda/fake_cuda.hpp"

namespace tnt::comm {
namespace {

using tests::device_of_test;
using tests::FakeCuda;
using tests::HostArray;
using tests::kDeviceTimeoutS;

constexpr std::size_t kBytes = 4096;

HostArray all(int value) {
  return HostArray(kBytes, static_cast<std::byte>(value));
}

// Where streams are slow, and each test runs with other delays.
class DeviceStreams : public ::testing::TestWithParam<unsigned> {
 protected:
  HostArray read(DevicePointer from) {
    HostArray content(kBytes);
    DeviceStream reader(device_);
    reader.copy_to_host(content.data(), from, kBytes);
    reader.synchronize(Deadline(kDeviceTimeoutS));
    return content;
  }

  FakeCuda driver_{{.longest_delay = std::chrono::milliseconds(2), .seed = GetParam()}};
  std::shared_ptr<Device> device_ = device_of_test();
  DeviceBuffer first_{device_, kBytes};
  DeviceBuffer second_{device_, kBytes};
};

TEST_P(DeviceStreams, BuffersHaveZerosAtFirst) {
  EXPECT_EQ(read(first_.data()), all(0));
}

TEST_P(DeviceStreams, CopiesAreDoneInTheirOrder) {
  const HostArray ones = all(1), twos = all(2);
  HostArray copied(kBytes);
  DeviceStream stream(device_);
  stream.copy_from_host(first_.data(), ones.data(), kBytes);
  stream.copy(second_.data(), first_.data(), kBytes);
  stream.copy_from_host(first_.data(), twos.data(), kBytes);
  stream.copy_to_host(copied.data(), second_.data(), kBytes);
  stream.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_EQ(copied, ones);
}

TEST_P(DeviceStreams, AnEventOrdersTwoStreams) {
  const HostArray ones = all(1);
  DeviceStream writer(device_);
  DeviceStream reader(device_);
  DeviceEvent is_written(device_);
  writer.copy_from_host(first_.data(), ones.data(), kBytes);
  writer.record(is_written);
  reader.wait_for(is_written);
  reader.copy(second_.data(), first_.data(), kBytes);
  reader.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_EQ(read(second_.data()), ones);
}

TEST_P(DeviceStreams, AWaitIsForWhatWasRecordedBeforeIt) {
  const HostArray ones = all(1);
  DeviceStream writer(device_);
  DeviceStream reader(device_);
  DeviceEvent event(device_);
  reader.wait_for(event);  // nothing is recorded yet
  reader.synchronize(Deadline(kDeviceTimeoutS));
  writer.copy_from_host(first_.data(), ones.data(), kBytes);
  writer.record(event);
  reader.wait_for(event);
  event.record(DeviceStream(device_).get());  // does not change what is waited for
  reader.copy(second_.data(), first_.data(), kBytes);
  reader.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_EQ(read(second_.data()), ones);
}

TEST_P(DeviceStreams, AnEventOfTheWholeContextOrdersAStreamThatNobodyKnows) {
  const HostArray ones = all(1), twos = all(2);
  DeviceStream foreign(device_, driver_.make_stream());
  DeviceStream own(device_);
  DeviceEvent event(device_);
  foreign.copy_from_host(first_.data(), ones.data(), kBytes);
  event.record(nullptr);
  own.wait_for(event);
  own.copy(second_.data(), first_.data(), kBytes);
  own.record(event);
  event.hold_up(nullptr);
  foreign.copy_from_host(first_.data(), twos.data(), kBytes);
  foreign.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_EQ(read(second_.data()), ones);
  EXPECT_EQ(read(first_.data()), twos);
}

TEST_P(DeviceStreams, AHostThatSeesAnEventCompleteMayReadWhatWasCopied) {
  HostArray copied = all(7);
  const PinnedMemory registered(device_, copied.data(), kBytes);
  DeviceStream stream(device_);
  DeviceEvent is_copied(device_);
  EXPECT_TRUE(is_copied.is_complete());
  stream.copy_to_host(copied.data(), first_.data(), kBytes);
  stream.record(is_copied);
  while (!is_copied.is_complete()) std::this_thread::yield();
  EXPECT_EQ(copied, all(0));
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceStreams, ::testing::Range(1U, 5U));

TEST(StandInForTheDriver, KeepsNoStreamsAndEventsThatAreReleased) {
  FakeCuda driver;
  const auto device = device_of_test();
  for (int i = 0; i < 1000; ++i) {
    DeviceStream stream(device);
    DeviceEvent event(device);
    stream.record(event);
    event.hold_up(nullptr);  // streams that are created later as well
    stream.synchronize(Deadline(kDeviceTimeoutS));
  }
  EXPECT_LT(driver.num_kept(), 100U);
}

// Two streams, where the second must wait for the first, and does not.
HostArray read_without_waiting(FakeCuda& driver) {
  const auto device = device_of_test();
  const DeviceBuffer buffer(device, kBytes);
  const HostArray ones = all(1);
  HostArray copied(kBytes);
  DeviceStream writer(device, driver.make_stream());
  DeviceStream reader(device, driver.make_stream());
  writer.copy_from_host(buffer.data(), ones.data(), kBytes);
  reader.copy_to_host(copied.data(), buffer.data(), kBytes);
  reader.synchronize(Deadline(kDeviceTimeoutS));
  writer.synchronize(Deadline(kDeviceTimeoutS));
  return copied;
}

TEST(ForgottenWaits, AreRacesOrWrongValues) {
#if defined(__SANITIZE_THREAD__)
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        FakeCuda driver;
        read_without_waiting(driver);
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "data race");
#else
  int num_wrong = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    FakeCuda driver({.longest_delay = std::chrono::milliseconds(2), .seed = seed});
    if (read_without_waiting(driver) != all(1)) ++num_wrong;
  }
  EXPECT_GT(num_wrong, 0);
#endif
}

TEST(DeviceStreamErrors, AStreamThatDoesNotComeToAnEndIsSoReported) {
  FakeCuda driver;
  const auto device = device_of_test();
  const DeviceBuffer buffer(device, kBytes);
  DeviceStream stream(device);
  driver.hang();
  stream.copy(buffer.data(), buffer.data(), kBytes);
  const Error error = tests::error_of([&] { stream.synchronize(Deadline(0.05)); });
  EXPECT_STREQ(error.what(), "GPU 0 (Stand-in GPU) has not finished its work within 0.05 s.");
  driver.let_go();
  stream.synchronize(Deadline(kDeviceTimeoutS));
}

TEST(DeviceStreamErrors, ABrokenDeviceIsReportedByWhoeverAsksNext) {
  FakeCuda driver;
  const auto device = device_of_test();
  DeviceStream stream(device);
  DeviceEvent event(device);
  stream.record(event);
  driver.break_devices(cuda::kLaunchFailed);
  for (const Error& error : {tests::error_of([&] { stream.synchronize(Deadline(1)); }),
                             tests::error_of([&] { event.is_complete(); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::comm);
    EXPECT_NE(std::string(error.what())
                  .find(" has failed with CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)."),
              std::string::npos)
        << error.what();
  }
}

TEST(DeviceStreamErrors, NoStreamIsNoStreamOfSomebodyElse) {
  const FakeCuda driver;
  EXPECT_THROW(DeviceStream(device_of_test(), nullptr), UsageError);
}

TEST(ContextEvents, AreNeededWhereNobodyTellsTheStream) {
  FakeCuda driver;
  driver.functions().ctx_record_event.call = nullptr;
  const auto device = device_of_test();
  EXPECT_FALSE(device->can_order_whole_context());
  DeviceEvent event(device);
  const Error error = tests::error_of([&] { event.record(nullptr); });
  EXPECT_STREQ(
      error.what(),
      "GPU 0: the driver has no cuCtxRecordEvent and no cuCtxWaitEvent, by which work of an"
      " unknown stream is waited for. Update it to that of CUDA 12.5 or later.");
  EXPECT_THROW(event.hold_up(nullptr), Error);
}

}  // namespace
}  // namespace tnt::comm
