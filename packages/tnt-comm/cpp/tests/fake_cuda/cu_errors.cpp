// What errors are called.

#include "fake_cuda/driver.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

using cuda::Result;

struct ErrorText {
  Result result;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cuda::kSuccess, "CUDA_SUCCESS", "no error"},
    {cuda::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {cuda::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {cuda::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {cuda::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {cuda::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {cuda::kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {cuda::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {cuda::kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {cuda::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {cuda::kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {cuda::kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {cuda::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

const ErrorText* find_error(Result result) {
  for (const ErrorText& error : kErrors) {
    if (error.result == result) return &error;
  }
  return nullptr;
}

}  // namespace
}  // namespace tnt::comm::tests::fake_cuda

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuGetErrorName(cuda::Result result, const char** name) {
  const ErrorText* error = find_error(result);
  *name = error == nullptr ? nullptr : error->name;
  return error == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}

FAKE_CUDA_API cuGetErrorString(cuda::Result result, const char** words) {
  const ErrorText* error = find_error(result);
  *words = error == nullptr ? nullptr : error->text;
  return error == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}
