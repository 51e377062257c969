// The driver and its devices.

#include <array>
#include <cstdio>
#include <string>

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

bool can_reach(int from, int to) {
  return from == to || (objects().reachable[static_cast<std::size_t>(from)] >> to & 1U) != 0;
}

void write_text(char* to, int room, const std::string& value) {
  std::snprintf(to, static_cast<std::size_t>(room), "%s", value.c_str());
}

std::string pci_address_of(int device) {
  std::array<char, 32> address{};
  std::snprintf(address.data(), address.size(), "0000:%02x:00.0",
                static_cast<unsigned>(objects().first_device + device + 1) & 0xffU);
  return address.data();
}

}  // namespace
}  // namespace tnt::comm::tests::fake_cuda

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuInit(unsigned flags) {
  Call call("cuInit");
  if (call.result() != cuda::kSuccess) return call.result();
  if (flags != 0) return cuda::kInvalidValue;
  if (objects().num_devices == 0) return cuda::kNoDevice;
  objects().is_initialized = true;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDriverGetVersion(int* version) {
  *version = objects().version;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount");
  if (call.is_refused()) return call.result();
  *count = objects().num_devices;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGet(cuda::DeviceNumber* device, int ordinal) {
  Call call("cuDeviceGet");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(ordinal)) return cuda::kInvalidDevice;
  *device = ordinal;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetName(char* name, int room, cuda::DeviceNumber device) {
  Call call("cuDeviceGetName");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  write_text(name, room, "Stand-in GPU");
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::DeviceNumber device) {
  Call call("cuDeviceGetUuid_v2");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  for (std::size_t i = 0; i < uuid->bytes.size(); ++i) {
    uuid->bytes[i] = static_cast<unsigned char>(i);
  }
  uuid->bytes.back() = static_cast<unsigned char>(device);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceTotalMem_v2(std::size_t* num_bytes, cuda::DeviceNumber device) {
  Call call("cuDeviceTotalMem_v2");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  *num_bytes = std::size_t{4} << 30;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetAttribute(int* value, int attribute, cuda::DeviceNumber device) {
  Call call("cuDeviceGetAttribute");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  switch (attribute) {
    case cuda::kMultiprocessorCount:
      *value = 4;
      return cuda::kSuccess;
    case cuda::kComputeCapabilityMajor:
      *value = objects().capability / 10;
      return cuda::kSuccess;
    case cuda::kComputeCapabilityMinor:
      *value = objects().capability % 10;
      return cuda::kSuccess;
    default:
      return cuda::kInvalidValue;
  }
}

FAKE_CUDA_API cuDeviceGetPCIBusId(char* address, int room, cuda::DeviceNumber device) {
  Call call("cuDeviceGetPCIBusId");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  write_text(address, room, pci_address_of(device));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetByPCIBusId(cuda::DeviceNumber* device, const char* address) {
  Call call("cuDeviceGetByPCIBusId");
  if (call.is_refused()) return call.result();
  for (*device = 0; objects().has_device(*device); ++*device) {
    if (pci_address_of(*device) == address) return cuda::kSuccess;
  }
  return cuda::kInvalidDevice;
}

FAKE_CUDA_API cuDeviceCanAccessPeer(int* can, cuda::DeviceNumber device, cuda::DeviceNumber peer) {
  Call call("cuDeviceCanAccessPeer");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device) || !objects().has_device(peer)) return cuda::kInvalidDevice;
  *can = device != peer && can_reach(device, peer) ? 1 : 0;  // not itself, as the real one says
  return cuda::kSuccess;
}
