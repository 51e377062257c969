// Streams and events.

#include <memory>
#include <mutex>
#include <utility>

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuStreamCreate(cuda::Stream* stream, unsigned flags) {
  Call call("cuStreamCreate");
  if (call.has_no_context()) return call.result();
  if (flags != cuda::kNonBlocking) return cuda::kInvalidValue;
  *stream = reinterpret_cast<cuda::Stream>(objects().make_stream(*current_context()));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuStreamDestroy_v2(cuda::Stream stream) {
  Call call("cuStreamDestroy_v2");
  if (stream == nullptr || stream_of(stream)->is_closed()) return cuda::kInvalidHandle;
  stream_of(stream)->close();
  objects().num_streams.fetch_sub(1, std::memory_order_relaxed);
  return call.result();
}

FAKE_CUDA_API cuStreamQuery(cuda::Stream stream) {
  Call call("cuStreamQuery");
  if (call.has_no_context()) return call.result();
  if (stream == nullptr) return cuda::kInvalidHandle;
  const bool is_idle = stream_of(stream)->is_idle();
  if (const cuda::Result error = course().error.load(std::memory_order_relaxed)) return error;
  return is_idle ? cuda::kSuccess : cuda::kNotReady;
}

FAKE_CUDA_API cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags) {
  Call call("cuStreamWaitEvent");
  if (call.has_no_context()) return call.result();
  if (flags != 0) return cuda::kInvalidValue;
  if (stream == nullptr || event == nullptr) return cuda::kInvalidHandle;
  if (const MarkUse mark = event_of(event)->latest()) stream_of(stream)->push_wait(mark);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuLaunchHostFunc(cuda::Stream stream, void (*function)(void*), void* argument) {
  Call call("cuLaunchHostFunc");
  if (call.has_no_context()) return call.result();
  if (stream == nullptr || function == nullptr) return cuda::kInvalidHandle;
  stream_of(stream)->push([=] { function(argument); });
  return cuda::kSuccess;
}

FAKE_CUDA_API cuEventCreate(cuda::Event* event, unsigned) {
  Call call("cuEventCreate");
  if (call.has_no_context()) return call.result();
  auto made = std::make_unique<EventObject>();
  *event = reinterpret_cast<cuda::Event>(made.get());
  const std::lock_guard lock(objects().mutex);
  objects().events[*event] = std::move(made);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuEventDestroy_v2(cuda::Event event) {
  Call call("cuEventDestroy_v2");
  const std::lock_guard lock(objects().mutex);
  return objects().events.erase(event) == 0 ? cuda::kInvalidHandle : call.result();
}

FAKE_CUDA_API cuEventRecord(cuda::Event event, cuda::Stream stream) {
  Call call("cuEventRecord");
  if (call.has_no_context()) return call.result();
  if (stream == nullptr || event == nullptr) return cuda::kInvalidHandle;
  const MarkUse mark = objects().make_mark(1);
  stream_of(stream)->push_mark(mark);
  event_of(event)->record(mark);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuEventQuery(cuda::Event event) {
  Call call("cuEventQuery");
  if (call.has_no_context()) return call.result();
  const MarkUse mark = event_of(event)->latest();
  return !mark || mark->is_reached() ? cuda::kSuccess : cuda::kNotReady;
}
