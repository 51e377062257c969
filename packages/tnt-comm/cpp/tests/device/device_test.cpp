#include "tnt/comm/device/device.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "captured_stderr.hpp"
#include "device/memory_of_test.hpp"
#include "errors.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "fake_cuda/memory.hpp"

namespace tnt::comm {
namespace {

using tests::device_of_test;
using tests::error_of;
using tests::FakeCuda;
using tests::HostArray;
using tests::kDeviceTimeoutS;

constexpr std::size_t kBufferBytes = 10000;

std::string reason_of_none(int ordinal = 0) {
  std::string reason;
  EXPECT_EQ(Device::find(ordinal, reason), nullptr);
  return reason;
}

TEST(Devices, AreFoundOnce) {
  FakeCuda driver({.num_devices = 2});
  const auto device = device_of_test(1);
  EXPECT_EQ(device_of_test(1), device);
  EXPECT_NE(device_of_test(0), device);
  EXPECT_EQ(device->ordinal(), 1);
  EXPECT_EQ(device->name(), "Stand-in GPU");
  EXPECT_EQ(device->pci_address(), "0000:02:00.0");
  EXPECT_TRUE(device->can_order_whole_context());
}

TEST(Devices, WithoutAnyTheReasonIsSaid) {
  FakeCuda driver({.num_devices = 0});
  EXPECT_EQ(reason_of_none(), "The CUDA driver finds no GPU.");
}

TEST(Devices, ANumberThatNoneHasIsSaid) {
  FakeCuda driver;
  EXPECT_EQ(reason_of_none(1),
            "GPU 1: CUDA's cuDeviceGet has failed with CUDA_ERROR_INVALID_DEVICE (invalid device"
            " ordinal).");
}

TEST(Devices, ADriverThatCannotBeStartedIsSaid) {
  FakeCuda driver;
  driver.fail("cuInit", 1, cuda::kOutOfMemory);
  EXPECT_EQ(reason_of_none(),
            "The CUDA driver cannot be started: CUDA_ERROR_OUT_OF_MEMORY (out of memory).");
  EXPECT_NE(device_of_test(), nullptr);
}

TEST(Devices, AnErrorWithoutANameHasItsNumber) {
  FakeCuda driver;
  driver.fail("cuInit", 1, 4711);
  EXPECT_EQ(reason_of_none(), "The CUDA driver cannot be started: error 4711.");
}

TEST(Devices, KernelsThatTheDriverDoesNotTakeAreSaid) {
  FakeCuda driver;
  driver.fail("cuModuleLoadData", 1, cuda::kInvalidValue);
  EXPECT_NE(reason_of_none().find("cuModuleLoadData"), std::string::npos);
  EXPECT_EQ(driver.num_left(), 0U);  // the context too is released
}

TEST(Devices, ReachThoseThatTheDriverSays) {
  FakeCuda driver({.num_devices = 3,
                   .can_reach = {{true, true, false}, {true, true, true}, {false, true, true}}});
  const auto device = device_of_test(0);
  EXPECT_EQ(device->can_reach("0000:01:00.0"), true);  // itself
  EXPECT_EQ(device->can_reach("0000:02:00.0"), true);
  EXPECT_EQ(device->can_reach("0000:03:00.0"), false);
  EXPECT_EQ(device->can_reach("0000:99:00.0"), std::nullopt);  // not seen
}

TEST(Devices, LeaveNothingBehind) {
  FakeCuda driver;
  {
    const auto device = device_of_test();
    const DeviceBuffer buffer(device, kBufferBytes);
    const PeerBuffer peer(device, buffer.handle());
    const DeviceStream stream(device);
    const DeviceEvent event(device);
    HostArray memory(kBufferBytes);
    const PinnedMemory registered(device, memory.data(), memory.size());
    EXPECT_EQ(driver.num_left(), 7U);  // the context and its kernels
  }
  EXPECT_EQ(driver.num_left(), 0U);
}

TEST(Devices, AreNotUsedInAForkedChild) {
  FakeCuda driver;
  auto device = device_of_test();
  auto buffer = std::make_unique<DeviceBuffer>(device, kBufferBytes);
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_right = reason_of_none().starts_with("CUDA does not work in a process that was forked");
    try {
      buffer->handle();
      is_right = false;
    } catch (const UsageError&) {
    }
    buffer.reset();  // leaves the parent's alone
    std::_Exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(DeviceMemory, ThatIsNotToBeHadIsNamed) {
  FakeCuda driver;
  const auto device = device_of_test();
  const Error error = error_of([&] { DeviceBuffer(device, std::size_t{1} << 40); });
  EXPECT_EQ(error.kind(), ErrorKind::comm);
  EXPECT_STREQ(error.what(),
               "GPU 0: CUDA's cuMemAlloc_v2 has failed with CUDA_ERROR_OUT_OF_MEMORY (out of"
               " memory).");
}

TEST(DeviceMemory, ThatCannotBeClearedIsReleased) {
  FakeCuda driver;
  const auto device = device_of_test();
  const std::size_t before = driver.num_left();
  driver.fail("cuMemsetD8Async", 1, cuda::kInvalidValue);
  EXPECT_THROW(DeviceBuffer(device, kBufferBytes), Error);
  EXPECT_EQ(driver.num_left(), before);
}

TEST(DeviceMemory, IsNoneOfTheHost) {
  const FakeCuda driver;
  const DeviceBuffer buffer(device_of_test(), kBufferBytes);
  // The system cannot read from there either.
  const auto* address = reinterpret_cast<const void*>(buffer.data());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_LT(::write(ends[1], address, 1), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(DeviceMemory, EndsWhereItEnds) {
  const FakeCuda driver;
  const auto device = device_of_test();
  const DeviceBuffer buffer(device, kBufferBytes);
  DeviceStream stream(device);
  HostArray memory(kBufferBytes + 1);
  EXPECT_NO_THROW(stream.copy_to_host(memory.data(), buffer.data(), kBufferBytes));
  EXPECT_THROW(stream.copy_to_host(memory.data(), buffer.data(), kBufferBytes + 1), Error);
  const std::vector<DevicePointer> places = {buffer.data()};
  EXPECT_THROW(stream.sum({places, places, DType::float32, kBufferBytes / 4 + 1}, SumTree(1)),
               Error);
}

TEST(DeviceMemory, OfNoBytesIsMemory) {
  const FakeCuda driver;
  EXPECT_NE(DeviceBuffer(device_of_test(), 0).data(), 0U);
}

TEST(PeerMemory, IsThatOfItsOwner) {
  const FakeCuda driver({.num_devices = 2});
  const auto owner = device_of_test(0);
  const auto other = device_of_test(1);
  const DeviceBuffer buffer(owner, kBufferBytes);
  const PeerBuffer opened(other, buffer.handle());
  const HostArray written(kBufferBytes, std::byte{5});
  HostArray read(kBufferBytes);
  DeviceStream writer(owner);
  writer.copy_from_host(buffer.data(), written.data(), kBufferBytes);
  writer.synchronize(Deadline(kDeviceTimeoutS));
  DeviceStream reader(other);
  reader.copy_to_host(read.data(), opened.data(), kBufferBytes);
  reader.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_EQ(read, written);
}

// A process that owns memory of a GPU until it is told to end, which then must be all nines.
[[noreturn]] void own_memory(int tells, int is_told) {
  tests::fake_cuda::Memory memory;
  cuda::Pointer pointer = 0;
  cuda::IpcMemory handle{};
  bool is_right = memory.allocate(0, kBufferBytes, &pointer) == cuda::kSuccess &&
                  memory.handle_of(pointer, &handle) == cuda::kSuccess &&
                  ::write(tells, &handle, sizeof handle) == sizeof handle;
  char word = 0;
  is_right = ::read(is_told, &word, 1) == 1 && is_right;
  const std::byte* bytes = memory.find(pointer, kBufferBytes).bytes;
  is_right =
      is_right && std::ranges::count(bytes, bytes + kBufferBytes, std::byte{9}) == kBufferBytes;
  std::_Exit(is_right ? 0 : 1);
}

TEST(PeerMemory, OfAnotherProcessIsTheSameMemory) {
  int handles[2];
  int words[2];
  ASSERT_EQ(::pipe(handles), 0);
  ASSERT_EQ(::pipe(words), 0);
  const pid_t child = ::fork();
  if (child == 0) own_memory(handles[1], words[0]);
  const FakeCuda driver;
  IpcHandle handle;
  ASSERT_EQ(::read(handles[0], handle.data(), handle.size()), std::ssize(handle));
  {
    const PeerBuffer opened(device_of_test(), handle);
    const HostArray written(kBufferBytes, std::byte{9});
    DeviceStream stream(device_of_test());
    stream.copy_from_host(opened.data(), written.data(), kBufferBytes);
    stream.synchronize(Deadline(kDeviceTimeoutS));
  }
  ASSERT_EQ(::write(words[1], "w", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THROW(PeerBuffer(device_of_test(), handle), Error);  // its owner has ended
  for (const int descriptor : {handles[0], handles[1], words[0], words[1]}) ::close(descriptor);
}

TEST(PeerMemory, OfADeviceOutOfReachIsRefused) {
  const FakeCuda driver({.num_devices = 2, .can_reach = {{true, false}, {false, true}}});
  const DeviceBuffer buffer(device_of_test(0), kBufferBytes);
  const Error error = error_of([&] { PeerBuffer(device_of_test(1), buffer.handle()); });
  EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
            std::string::npos);
}

TEST(PeerMemory, ThatWasNotOpenedIsNotForKernels) {
  const FakeCuda driver({.num_devices = 2});
  const DeviceBuffer buffer(device_of_test(0), kBufferBytes);
  DeviceStream stream(device_of_test(1));
  const std::vector<DevicePointer> places = {buffer.data()};
  EXPECT_THROW(stream.sum({places, places, DType::float32, 1}, SumTree(1)), Error);
}

// Memory of the host that begins with a page.
class Pages {
 public:
  explicit Pages(std::size_t num_bytes)
      : num_bytes_(num_bytes),
        data_(::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0)) {}
  ~Pages() { ::munmap(data_, num_bytes_); }
  Pages(Pages&&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t num_bytes_;
  void* data_;
};

TEST(HostMemory, ThatIsRegisteredIsCopiedToBehindTheCallersBack) {
  FakeCuda driver;
  const auto device = device_of_test();
  const DeviceBuffer buffer(device, kBufferBytes);
  const Pages memory(kBufferBytes);
  const PinnedMemory registered(device, memory.data(), kBufferBytes);
  DeviceStream stream(device);
  driver.hang();
  stream.copy_to_host(memory.data(), buffer.data(), kBufferBytes);  // returns nevertheless
  EXPECT_THROW(stream.synchronize(Deadline(0.01)), Error);
  driver.let_go();
  stream.synchronize(Deadline(kDeviceTimeoutS));
}

TEST(HostMemory, IsRegisteredOnce) {
  const FakeCuda driver;
  const auto device = device_of_test();
  const Pages memory(kBufferBytes);
  const PinnedMemory registered(device, memory.data(), kBufferBytes);
  const Error error = error_of([&] { PinnedMemory(device, memory.data(), 1); });
  EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
            std::string::npos);
}

TEST(HostMemory, IsRegisteredByWholePages) {
  const FakeCuda driver;
  const auto device = device_of_test();
  const Pages memory(3 * 4096);
  const PinnedMemory registered(device, memory.data() + 100, 4096);
  const DeviceBuffer buffer(device, 8192);
  DeviceStream stream(device);
  EXPECT_NO_THROW(stream.copy_to_host(memory.data(), buffer.data(), 8192));
  stream.synchronize(Deadline(kDeviceTimeoutS));
  EXPECT_NO_THROW(PinnedMemory(device, memory.data() + 8192, 1));
}

TEST(HostMemory, OfWhichAPartIsRegisteredCannotBeCopied) {
  const FakeCuda driver;
  const auto device = device_of_test();
  const Pages memory(2 * 4096);
  const PinnedMemory registered(device, memory.data(), 4096);
  const DeviceBuffer buffer(device, 8192);
  DeviceStream stream(device);
  EXPECT_THROW(stream.copy_from_host(buffer.data(), memory.data(), 8192), Error);
}

TEST(StuckDevices, AreLeftBehindWithOneWarning) {
  FakeCuda driver({.release_limit_s = 0.1});
  const tests::CapturedStderr output;
  {
    const auto device = device_of_test();
    const DeviceBuffer buffer(device, kBufferBytes);
    const DeviceBuffer another(device, kBufferBytes);
    const DeviceEvent event(device);
    DeviceStream stream(device);
    driver.hang();
    stream.copy(buffer.data(), another.data(), kBufferBytes);
  }
  const std::string warnings = output.text();
  EXPECT_NE(warnings.find("GPU 0 has not finished its work within 0.1 s"), std::string::npos)
      << warnings;
  EXPECT_EQ(warnings.find("[gpu-stuck]"), warnings.rfind("[gpu-stuck]")) << warnings;
  EXPECT_GT(driver.num_left(), 0U);
}

TEST(StuckDevices, HoldNoBufferThatIsReleasedWhileAForeignStreamHangs) {
  FakeCuda driver({.release_limit_s = 0.1});
  const tests::CapturedStderr output;
  {
    const auto device = device_of_test();
    const DeviceBuffer buffer(device, kBufferBytes);
    DeviceStream foreign(device, driver.make_stream());
    driver.hang();
    foreign.copy(buffer.data(), buffer.data(), kBufferBytes);
  }
  EXPECT_NE(output.text().find("[gpu-stuck]"), std::string::npos);
}

TEST(DriversThatHaveEnded, AreLeftAlone) {
  FakeCuda driver;
  const tests::CapturedStderr output;
  {
    const auto device = device_of_test();
    const DeviceBuffer buffer(device, kBufferBytes);
    const DeviceStream stream(device);
    driver.break_devices(cuda::kDeinitialized);
  }
  EXPECT_EQ(output.text(), "");
}

TEST(Device, IsRefusedIfItIsTooOldForTheKernels) {
  const FakeCuda cuda({.capability = 70});
  std::string reason;
  EXPECT_EQ(Device::find(0, reason), nullptr);
  EXPECT_EQ(
      reason,
      "GPU 0 has compute capability 7.0, but the kernels that sum need 7.5 (Turing) or later.");
}

}  // namespace
}  // namespace tnt::comm
