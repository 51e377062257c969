// Compiles, and ends with 0, if what this library declares of CUDA's driver is what a cuda.h says.
// Compiled by tests/headers/test_cuda_declarations.py.

#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <type_traits>

#include "tnt/comm/device/driver_api.hpp"

namespace ours = tnt::comm::cuda;

#define TNT_SAME_VALUE(OURS, THEIRS) \
  static_assert(static_cast<long long>(OURS) == static_cast<long long>(THEIRS))
// cuda.h gives names of functions the numbers of versions.
#define TNT_QUOTED(NAME) #NAME
#define TNT_TEXT(NAME) TNT_QUOTED(NAME)

TNT_SAME_VALUE(ours::kSuccess, CUDA_SUCCESS);
TNT_SAME_VALUE(ours::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
TNT_SAME_VALUE(ours::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
TNT_SAME_VALUE(ours::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
TNT_SAME_VALUE(ours::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
TNT_SAME_VALUE(ours::kNoDevice, CUDA_ERROR_NO_DEVICE);
TNT_SAME_VALUE(ours::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
TNT_SAME_VALUE(ours::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
TNT_SAME_VALUE(ours::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
TNT_SAME_VALUE(ours::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
TNT_SAME_VALUE(ours::kNotFound, CUDA_ERROR_NOT_FOUND);
TNT_SAME_VALUE(ours::kNotReady, CUDA_ERROR_NOT_READY);
TNT_SAME_VALUE(ours::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
TNT_SAME_VALUE(ours::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
TNT_SAME_VALUE(ours::kAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
TNT_SAME_VALUE(ours::kNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
TNT_SAME_VALUE(ours::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);

TNT_SAME_VALUE(ours::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
TNT_SAME_VALUE(ours::kNonBlocking, CU_STREAM_NON_BLOCKING);
TNT_SAME_VALUE(ours::kDisableTiming, CU_EVENT_DISABLE_TIMING);
TNT_SAME_VALUE(ours::kPortable, CU_MEMHOSTREGISTER_PORTABLE);
TNT_SAME_VALUE(ours::kLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

// No library is open.
namespace tnt::comm {
SharedLibrary::Symbol SharedLibrary::operator[](const char*) const {
  return {nullptr};
}
SharedLibrary::Symbol SharedLibrary::find(const char*) const {
  return {nullptr};
}
}  // namespace tnt::comm

namespace {

int num_wrong = 0;

// Handles and what pointers point to have types of our own.
template <typename Ours, typename Theirs>
constexpr bool is_passed_alike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    std::is_class_v<Ours> == std::is_class_v<Theirs>;

template <typename... Ours, typename... Theirs>
void check(const ours::Function<Ours...>& function, CUresult(CUDAAPI*)(Theirs...),
           const char* name) {
  static_assert(sizeof...(Ours) == sizeof...(Theirs));
  static_assert((is_passed_alike<Ours, Theirs> && ...));
  if (std::strcmp(function.name, name) == 0) return;
  std::printf("%s is %s\n", function.name, name);
  ++num_wrong;
}

}  // namespace

int main() {
  const ours::Functions driver;
  check(driver.init, &cuInit, TNT_TEXT(cuInit));
  check(driver.driver_get_version, &cuDriverGetVersion, TNT_TEXT(cuDriverGetVersion));
  check(driver.get_error_name, &cuGetErrorName, TNT_TEXT(cuGetErrorName));
  check(driver.get_error_string, &cuGetErrorString, TNT_TEXT(cuGetErrorString));
  check(driver.device_get_count, &cuDeviceGetCount, TNT_TEXT(cuDeviceGetCount));
  check(driver.device_get, &cuDeviceGet, TNT_TEXT(cuDeviceGet));
  check(driver.device_get_name, &cuDeviceGetName, TNT_TEXT(cuDeviceGetName));
  // A name of its own before CUDA 13.
  check(driver.device_get_uuid, &cuDeviceGetUuid_v2, "cuDeviceGetUuid_v2");
  check(driver.device_total_mem, &cuDeviceTotalMem, TNT_TEXT(cuDeviceTotalMem));
  check(driver.device_get_attribute, &cuDeviceGetAttribute, TNT_TEXT(cuDeviceGetAttribute));
  check(driver.device_get_pci_bus_id, &cuDeviceGetPCIBusId, TNT_TEXT(cuDeviceGetPCIBusId));
  check(driver.device_get_by_pci_bus_id, &cuDeviceGetByPCIBusId, TNT_TEXT(cuDeviceGetByPCIBusId));
  check(driver.device_can_access_peer, &cuDeviceCanAccessPeer, TNT_TEXT(cuDeviceCanAccessPeer));
  check(driver.device_primary_ctx_retain, &cuDevicePrimaryCtxRetain,
        TNT_TEXT(cuDevicePrimaryCtxRetain));
  check(driver.device_primary_ctx_release, &cuDevicePrimaryCtxRelease,
        TNT_TEXT(cuDevicePrimaryCtxRelease));
  check(driver.ctx_push_current, &cuCtxPushCurrent, TNT_TEXT(cuCtxPushCurrent));
  check(driver.ctx_pop_current, &cuCtxPopCurrent, TNT_TEXT(cuCtxPopCurrent));
  check(driver.mem_alloc, &cuMemAlloc, TNT_TEXT(cuMemAlloc));
  check(driver.mem_free, &cuMemFree, TNT_TEXT(cuMemFree));
  check(driver.memset_d8_async, &cuMemsetD8Async, TNT_TEXT(cuMemsetD8Async));
  check(driver.memcpy_dtod_async, &cuMemcpyDtoDAsync, TNT_TEXT(cuMemcpyDtoDAsync));
  check(driver.memcpy_dtoh_async, &cuMemcpyDtoHAsync, TNT_TEXT(cuMemcpyDtoHAsync));
  check(driver.memcpy_htod_async, &cuMemcpyHtoDAsync, TNT_TEXT(cuMemcpyHtoDAsync));
  check(driver.mem_host_register, &cuMemHostRegister, TNT_TEXT(cuMemHostRegister));
  check(driver.mem_host_unregister, &cuMemHostUnregister, TNT_TEXT(cuMemHostUnregister));
  check(driver.ipc_get_mem_handle, &cuIpcGetMemHandle, TNT_TEXT(cuIpcGetMemHandle));
  check(driver.ipc_open_mem_handle, &cuIpcOpenMemHandle, TNT_TEXT(cuIpcOpenMemHandle));
  check(driver.ipc_close_mem_handle, &cuIpcCloseMemHandle, TNT_TEXT(cuIpcCloseMemHandle));
  check(driver.stream_create, &cuStreamCreate, TNT_TEXT(cuStreamCreate));
  check(driver.stream_destroy, &cuStreamDestroy, TNT_TEXT(cuStreamDestroy));
  check(driver.stream_query, &cuStreamQuery, TNT_TEXT(cuStreamQuery));
  check(driver.stream_wait_event, &cuStreamWaitEvent, TNT_TEXT(cuStreamWaitEvent));
  check(driver.launch_host_func, &cuLaunchHostFunc, TNT_TEXT(cuLaunchHostFunc));
  check(driver.event_create, &cuEventCreate, TNT_TEXT(cuEventCreate));
  check(driver.event_destroy, &cuEventDestroy, TNT_TEXT(cuEventDestroy));
  check(driver.event_record, &cuEventRecord, TNT_TEXT(cuEventRecord));
  check(driver.event_query, &cuEventQuery, TNT_TEXT(cuEventQuery));
  check(driver.module_load_data, &cuModuleLoadData, TNT_TEXT(cuModuleLoadData));
  check(driver.module_unload, &cuModuleUnload, TNT_TEXT(cuModuleUnload));
  check(driver.module_get_function, &cuModuleGetFunction, TNT_TEXT(cuModuleGetFunction));
  check(driver.launch_kernel, &cuLaunchKernel, TNT_TEXT(cuLaunchKernel));
#if CUDA_VERSION >= 12050
  check(driver.ctx_record_event, &cuCtxRecordEvent, TNT_TEXT(cuCtxRecordEvent));
  check(driver.ctx_wait_event, &cuCtxWaitEvent, TNT_TEXT(cuCtxWaitEvent));
#endif
  return num_wrong == 0 ? 0 : 1;
}
