// Primary contexts, and events of all their streams.

#include <memory>
#include <mutex>
#include <vector>

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

thread_local std::vector<DeviceContext*> contexts_of_thread;

}  // namespace

DeviceContext* current_context() {
  return contexts_of_thread.empty() ? nullptr : contexts_of_thread.back();
}

}  // namespace tnt::comm::tests::fake_cuda

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::DeviceNumber device) {
  Call call("cuDevicePrimaryCtxRetain");
  if (call.is_refused()) return call.result();
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  DeviceContext& found = objects().contexts[static_cast<std::size_t>(device)];
  found.num_retained.fetch_add(1, std::memory_order_relaxed);
  *context = reinterpret_cast<cuda::Context>(&found);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDevicePrimaryCtxRelease_v2(cuda::DeviceNumber device) {
  if (!objects().has_device(device)) return cuda::kInvalidDevice;
  DeviceContext& found = objects().contexts[static_cast<std::size_t>(device)];
  found.num_retained.fetch_sub(1, std::memory_order_relaxed);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuCtxPushCurrent_v2(cuda::Context context) {
  if (context == nullptr) return cuda::kInvalidContext;
  if (context_of(context)->num_retained.load(std::memory_order_relaxed) <= 0) {
    return cuda::kContextIsDestroyed;
  }
  contexts_of_thread.push_back(context_of(context));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuCtxPopCurrent_v2(cuda::Context* context) {
  if (contexts_of_thread.empty()) return cuda::kInvalidContext;
  *context = reinterpret_cast<cuda::Context>(contexts_of_thread.back());
  contexts_of_thread.pop_back();
  return cuda::kSuccess;
}

FAKE_CUDA_API cuCtxRecordEvent(cuda::Context of, cuda::Event event) {
  Call call("cuCtxRecordEvent");
  if (call.is_refused()) return call.result();
  DeviceContext& context = *context_of(of);
  const std::lock_guard lock(context.mutex);
  const auto streams = context.open_streams();
  const MarkUse mark = objects().make_mark(static_cast<int>(streams.size()));
  for (const auto& stream : streams) stream->push_mark(mark);
  event_of(event)->record(mark);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuCtxWaitEvent(cuda::Context of, cuda::Event event) {
  Call call("cuCtxWaitEvent");
  if (call.is_refused()) return call.result();
  const MarkUse mark = event_of(event)->latest();
  if (!mark) return cuda::kSuccess;
  DeviceContext& context = *context_of(of);
  const std::lock_guard lock(context.mutex);
  for (const auto& stream : context.open_streams()) stream->push_wait(mark);
  if (!context.gate) context.gate = std::make_unique<Stream>(context.ordinal, objects().seed);
  context.gate->push_wait(mark);
  return cuda::kSuccess;
}
