#include "fake_cuda/fake_cuda.hpp"

#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"
#include "fake_cuda/settings.hpp"
#include "fake_cuda/streams.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm::tests {
namespace {

cuda::Functions driver_functions() {
  cuda::Functions all{};
  all.init.call = cuInit;
  all.driver_get_version.call = cuDriverGetVersion;
  all.get_error_name.call = cuGetErrorName;
  all.get_error_string.call = cuGetErrorString;
  all.device_get_count.call = cuDeviceGetCount;
  all.device_get.call = cuDeviceGet;
  all.device_get_name.call = cuDeviceGetName;
  all.device_get_uuid.call = cuDeviceGetUuid_v2;
  all.device_total_mem.call = cuDeviceTotalMem_v2;
  all.device_get_attribute.call = cuDeviceGetAttribute;
  all.device_get_pci_bus_id.call = cuDeviceGetPCIBusId;
  all.device_get_by_pci_bus_id.call = cuDeviceGetByPCIBusId;
  all.device_can_access_peer.call = cuDeviceCanAccessPeer;
  all.device_primary_ctx_retain.call = cuDevicePrimaryCtxRetain;
  all.device_primary_ctx_release.call = cuDevicePrimaryCtxRelease_v2;
  all.ctx_push_current.call = cuCtxPushCurrent_v2;
  all.ctx_pop_current.call = cuCtxPopCurrent_v2;
  all.ctx_record_event.call = cuCtxRecordEvent;
  all.ctx_wait_event.call = cuCtxWaitEvent;
  all.mem_alloc.call = cuMemAlloc_v2;
  all.mem_free.call = cuMemFree_v2;
  all.memset_d8_async.call = cuMemsetD8Async;
  all.memcpy_dtod_async.call = cuMemcpyDtoDAsync_v2;
  all.memcpy_dtoh_async.call = cuMemcpyDtoHAsync_v2;
  all.memcpy_htod_async.call = cuMemcpyHtoDAsync_v2;
  all.mem_host_register.call = cuMemHostRegister_v2;
  all.mem_host_unregister.call = cuMemHostUnregister;
  all.ipc_get_mem_handle.call = cuIpcGetMemHandle;
  all.ipc_open_mem_handle.call = cuIpcOpenMemHandle_v2;
  all.ipc_close_mem_handle.call = cuIpcCloseMemHandle;
  all.stream_create.call = cuStreamCreate;
  all.stream_destroy.call = cuStreamDestroy_v2;
  all.stream_query.call = cuStreamQuery;
  all.stream_wait_event.call = cuStreamWaitEvent;
  all.launch_host_func.call = cuLaunchHostFunc;
  all.event_create.call = cuEventCreate;
  all.event_destroy.call = cuEventDestroy_v2;
  all.event_record.call = cuEventRecord;
  all.event_query.call = cuEventQuery;
  all.module_load_data.call = cuModuleLoadData;
  all.module_unload.call = cuModuleUnload;
  all.module_get_function.call = cuModuleGetFunction;
  all.launch_kernel.call = cuLaunchKernel;
  return all;
}

}  // namespace

FakeCuda::FakeCuda(const FakeCudaSettings& settings)
    : driver_{.functions = driver_functions(), .release_limit_s = settings.release_limit_s} {
  fake_cuda::reset_driver();
  fake_cuda::apply_number_of_devices(settings.num_devices, 0);
  fake_cuda::objects().capability = settings.capability;
  for (std::size_t from = 0; from < settings.can_reach.size(); ++from) {
    unsigned reachable = 0;
    for (std::size_t to = 0; to < settings.can_reach[from].size(); ++to) {
      if (settings.can_reach[from][to]) reachable |= 1U << to;
    }
    fake_cuda::apply_reach(static_cast<int>(from), reachable);
  }
  fake_cuda::apply_version(settings.version);
  fake_cuda::apply_seed(settings.seed);
  fake_cuda::course().longest_delay_us = settings.longest_delay.count();
  cuda::substitute_driver(&driver_);
}

FakeCuda::~FakeCuda() {
  cuda::substitute_driver(nullptr);
  fake_cuda::reset_driver();
}

void FakeCuda::fail(const std::string& function, int number, cuda::Result result) {
  fake_cuda::apply_failure(function.c_str(), number, result);
}

void FakeCuda::hang() {
  fake_cuda::course().is_hung = true;
}

void FakeCuda::let_go() {
  fake_cuda::course().is_hung = false;
}

void FakeCuda::break_devices(cuda::Result result) {
  fake_cuda::course().error = result;
}

std::size_t FakeCuda::num_left() const {
  return fake_cuda::num_objects_left();
}

std::size_t FakeCuda::num_kept() const {
  return fake_cuda::num_kept();
}

void* FakeCuda::make_stream(int ordinal) {
  cuda::Functions& driver = functions();
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  driver.device_primary_ctx_retain.call(&context, ordinal);
  driver.ctx_push_current.call(context);
  const cuda::Result result = driver.stream_create.call(&stream, cuda::kNonBlocking);
  driver.ctx_pop_current.call(&context);
  driver.device_primary_ctx_release.call(ordinal);
  if (result != cuda::kSuccess) throw Error(ErrorKind::comm, "no stream: ", result);
  return stream;
}

}  // namespace tnt::comm::tests
