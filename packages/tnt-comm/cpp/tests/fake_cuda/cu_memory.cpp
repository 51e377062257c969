// Memory of GPUs and of the host, and copies between them.

#include <cstring>
#include <vector>

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuMemAlloc_v2(cuda::Pointer* pointer, std::size_t num_bytes) {
  Call call("cuMemAlloc_v2");
  if (call.has_no_context()) return call.result();
  return objects().memory.allocate(current_context()->ordinal, num_bytes, pointer);
}

FAKE_CUDA_API cuMemFree_v2(cuda::Pointer pointer) {
  Call call("cuMemFree_v2");
  if (current_context() == nullptr) return cuda::kInvalidContext;
  current_context()->wait_for_all_streams();
  const cuda::Result result = objects().memory.free(pointer);
  return result == cuda::kSuccess ? call.result() : result;
}

FAKE_CUDA_API cuMemHostRegister_v2(void* begin, std::size_t num_bytes, unsigned) {
  Call call("cuMemHostRegister_v2");
  if (call.has_no_context()) return call.result();
  return objects().memory.register_host(begin, num_bytes);
}

FAKE_CUDA_API cuMemHostUnregister(void* begin) {
  Call call("cuMemHostUnregister");
  if (current_context() == nullptr) return cuda::kInvalidContext;
  const cuda::Result result = objects().memory.unregister_host(begin);
  return result == cuda::kSuccess ? call.result() : result;
}

FAKE_CUDA_API cuMemsetD8Async(cuda::Pointer to, unsigned char value, std::size_t num_bytes,
                              cuda::Stream stream) {
  Call call("cuMemsetD8Async");
  if (call.has_no_context()) return call.result();
  std::byte* bytes = objects().memory.find(to, num_bytes).bytes;
  if (bytes == nullptr) return cuda::kInvalidValue;
  if (stream == nullptr) return cuda::kInvalidHandle;
  stream_of(stream)->push([=] { std::memset(bytes, value, num_bytes); });
  return cuda::kSuccess;
}

FAKE_CUDA_API cuMemcpyDtoDAsync_v2(cuda::Pointer to, cuda::Pointer from, std::size_t num_bytes,
                                   cuda::Stream stream) {
  Call call("cuMemcpyDtoDAsync_v2");
  if (call.has_no_context()) return call.result();
  std::byte* target = objects().memory.find(to, num_bytes).bytes;
  const std::byte* source = objects().memory.find(from, num_bytes).bytes;
  if (target == nullptr || source == nullptr) return cuda::kInvalidValue;
  if (stream == nullptr) return cuda::kInvalidHandle;
  stream_of(stream)->push([=] { std::memmove(target, source, num_bytes); });
  return cuda::kSuccess;
}

FAKE_CUDA_API cuMemcpyDtoHAsync_v2(void* to, cuda::Pointer from, std::size_t num_bytes,
                                   cuda::Stream stream) {
  Call call("cuMemcpyDtoHAsync_v2");
  if (call.has_no_context()) return call.result();
  const std::byte* source = objects().memory.find(from, num_bytes).bytes;
  const Memory::HostKind kind = objects().memory.kind_of(to, num_bytes);
  if (source == nullptr || kind == Memory::HostKind::partly_registered) return cuda::kInvalidValue;
  if (stream == nullptr) return cuda::kInvalidHandle;
  stream_of(stream)->push([=] { std::memcpy(to, source, num_bytes); });
  if (kind == Memory::HostKind::pageable) stream_of(stream)->wait();
  return cuda::kSuccess;
}

FAKE_CUDA_API cuMemcpyHtoDAsync_v2(cuda::Pointer to, const void* from, std::size_t num_bytes,
                                   cuda::Stream stream) {
  Call call("cuMemcpyHtoDAsync_v2");
  if (call.has_no_context()) return call.result();
  std::byte* target = objects().memory.find(to, num_bytes).bytes;
  const Memory::HostKind kind = objects().memory.kind_of(from, num_bytes);
  if (target == nullptr || kind == Memory::HostKind::partly_registered) return cuda::kInvalidValue;
  if (stream == nullptr) return cuda::kInvalidHandle;
  if (kind == Memory::HostKind::registered) {
    stream_of(stream)->push([=] { std::memcpy(target, from, num_bytes); });
    return cuda::kSuccess;
  }
  const auto* bytes = static_cast<const std::byte*>(from);
  stream_of(stream)->push([target, staged = std::vector<std::byte>(bytes, bytes + num_bytes)] {
    std::memcpy(target, staged.data(), staged.size());
  });
  return cuda::kSuccess;
}
