// Memory of other processes.

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuIpcGetMemHandle(cuda::IpcMemory* handle, cuda::Pointer pointer) {
  Call call("cuIpcGetMemHandle");
  if (call.has_no_context()) return call.result();
  return objects().memory.handle_of(pointer, handle);
}

FAKE_CUDA_API cuIpcOpenMemHandle_v2(cuda::Pointer* pointer, cuda::IpcMemory handle,
                                    unsigned flags) {
  Call call("cuIpcOpenMemHandle_v2");
  if (call.has_no_context()) return call.result();
  if (flags != cuda::kLazyPeerAccess) return cuda::kInvalidValue;
  const int device = current_context()->ordinal;
  const unsigned reachable = objects().reachable[static_cast<std::size_t>(device)] | 1U << device;
  return objects().memory.open(handle, reachable, pointer);
}

FAKE_CUDA_API cuIpcCloseMemHandle(cuda::Pointer pointer) {
  Call call("cuIpcCloseMemHandle");
  if (current_context() == nullptr) return cuda::kInvalidContext;
  const cuda::Result result = objects().memory.close(pointer);
  return result == cuda::kSuccess ? call.result() : result;
}
