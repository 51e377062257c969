#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tnt/comm/base/shared_library.hpp"

namespace tnt::comm::cuda {

// What is used of the interface of CUDA's driver (cuda.h), in declarations of our own, so that
// nothing of CUDA is needed to build this library. HIP has all of it under names of its own.

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;  ///< the process is about to end
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kPeerAccessUnsupported = 217;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kAlreadyRegistered = 712;
inline constexpr Result kNotRegistered = 713;
inline constexpr Result kLaunchFailed = 719;

using DeviceNumber = int;
using Pointer = std::uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Kernel = struct KernelTag*;

/// CUipcMemHandle, which is passed by value.
struct IpcMemory {
  std::array<std::byte, 64> bytes;
};

/// CUuuid
struct Uuid {
  std::array<unsigned char, 16> bytes;
};

inline constexpr int kMultiprocessorCount = 16;  ///< CU_DEVICE_ATTRIBUTE_..., as the next two
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr unsigned kNonBlocking = 1;     ///< CU_STREAM_...
inline constexpr unsigned kDisableTiming = 2;   ///< CU_EVENT_...
inline constexpr unsigned kPortable = 1;        ///< CU_MEMHOSTREGISTER_...
inline constexpr unsigned kLazyPeerAccess = 1;  ///< CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/// A function of the driver, with its name.
template <typename... Arguments>
struct Function {
  const char* name;
  Result (*call)(Arguments...);
};

/// The functions, with their names without `cu` or the number of their version. That number says
/// which of several interfaces of one name is meant.
struct Functions {
  SharedLibrary from = {};

  Function<unsigned> init = required("cuInit");
  Function<int*> driver_get_version = required("cuDriverGetVersion");
  Function<Result, const char**> get_error_name = required("cuGetErrorName");
  Function<Result, const char**> get_error_string = required("cuGetErrorString");

  Function<int*> device_get_count = required("cuDeviceGetCount");
  Function<DeviceNumber*, int> device_get = required("cuDeviceGet");
  Function<char*, int, DeviceNumber> device_get_name = required("cuDeviceGetName");
  Function<Uuid*, DeviceNumber> device_get_uuid = required("cuDeviceGetUuid_v2");
  Function<std::size_t*, DeviceNumber> device_total_mem = required("cuDeviceTotalMem_v2");
  Function<int*, int, DeviceNumber> device_get_attribute = required("cuDeviceGetAttribute");
  Function<char*, int, DeviceNumber> device_get_pci_bus_id = required("cuDeviceGetPCIBusId");
  Function<DeviceNumber*, const char*> device_get_by_pci_bus_id = required("cuDeviceGetByPCIBusId");
  Function<int*, DeviceNumber, DeviceNumber> device_can_access_peer =
      required("cuDeviceCanAccessPeer");

  Function<Context*, DeviceNumber> device_primary_ctx_retain = required("cuDevicePrimaryCtxRetain");
  Function<DeviceNumber> device_primary_ctx_release = required("cuDevicePrimaryCtxRelease_v2");
  Function<Context> ctx_push_current = required("cuCtxPushCurrent_v2");
  Function<Context*> ctx_pop_current = required("cuCtxPopCurrent_v2");
  /// For all streams of a context; null before CUDA 12.5.
  Function<Context, Event> ctx_record_event = optional("cuCtxRecordEvent");
  Function<Context, Event> ctx_wait_event = optional("cuCtxWaitEvent");

  Function<Pointer*, std::size_t> mem_alloc = required("cuMemAlloc_v2");
  Function<Pointer> mem_free = required("cuMemFree_v2");
  Function<Pointer, unsigned char, std::size_t, Stream> memset_d8_async =
      required("cuMemsetD8Async");
  Function<Pointer, Pointer, std::size_t, Stream> memcpy_dtod_async =
      required("cuMemcpyDtoDAsync_v2");
  Function<void*, Pointer, std::size_t, Stream> memcpy_dtoh_async =
      required("cuMemcpyDtoHAsync_v2");
  Function<Pointer, const void*, std::size_t, Stream> memcpy_htod_async =
      required("cuMemcpyHtoDAsync_v2");
  Function<void*, std::size_t, unsigned> mem_host_register = required("cuMemHostRegister_v2");
  Function<void*> mem_host_unregister = required("cuMemHostUnregister");
  Function<IpcMemory*, Pointer> ipc_get_mem_handle = required("cuIpcGetMemHandle");
  Function<Pointer*, IpcMemory, unsigned> ipc_open_mem_handle = required("cuIpcOpenMemHandle_v2");
  Function<Pointer> ipc_close_mem_handle = required("cuIpcCloseMemHandle");

  Function<Stream*, unsigned> stream_create = required("cuStreamCreate");
  Function<Stream> stream_destroy = required("cuStreamDestroy_v2");
  Function<Stream> stream_query = required("cuStreamQuery");
  Function<Stream, Event, unsigned> stream_wait_event = required("cuStreamWaitEvent");
  Function<Stream, void (*)(void*), void*> launch_host_func = required("cuLaunchHostFunc");
  Function<Event*, unsigned> event_create = required("cuEventCreate");
  Function<Event> event_destroy = required("cuEventDestroy_v2");
  Function<Event, Stream> event_record = required("cuEventRecord");
  Function<Event> event_query = required("cuEventQuery");

  Function<Module*, const void*> module_load_data = required("cuModuleLoadData");
  Function<Module> module_unload = required("cuModuleUnload");
  Function<Kernel*, Module, const char*> module_get_function = required("cuModuleGetFunction");
  Function<Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
           void**, void**>
      launch_kernel = required("cuLaunchKernel");

 private:
  struct Found {
    const char* name;
    SharedLibrary::Symbol symbol;
    template <typename... Arguments>
    operator Function<Arguments...>() const {  // NOLINT: it is what it initialises
      return {name, symbol};
    }
  };
  Found required(const char* name) const { return {name, from[name]}; }
  Found optional(const char* name) const { return {name, from.find(name)}; }
};

}  // namespace tnt::comm::cuda
