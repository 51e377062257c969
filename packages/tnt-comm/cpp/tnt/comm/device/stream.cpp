// Streams and events: what is done in which order.

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tnt/comm/device/context.hpp"
#include "tnt/comm/device/device.hpp"

namespace tnt::comm {
namespace {

cuda::Event as_event(void* event) {
  return static_cast<cuda::Event>(event);
}

cuda::Stream as_stream(void* stream) {
  return static_cast<cuda::Stream>(stream);
}

void require_whole_context(const Device& device) {
  if (device.can_order_whole_context()) return;
  throw Error(ErrorKind::comm, "GPU ", device.ordinal(),
              ": the driver has no cuCtxRecordEvent and no cuCtxWaitEvent, by which work of an"
              " unknown stream is waited for. Update it to that of CUDA 12.5 or later.");
}

}  // namespace

DeviceEvent::DeviceEvent(std::shared_ptr<Device> device) : device_(std::move(device)) {
  cuda::Event event = nullptr;
  device_->context().call(device_->context().driver().event_create, &event, cuda::kDisableTiming);
  event_ = event;
}

DeviceEvent::~DeviceEvent() {
  cuda::PrimaryContext& context = device_->context();
  context.release(context.driver().event_destroy, as_event(event_));
}

void DeviceEvent::record(ForeignStream stream) {
  const cuda::PrimaryContext& context = device_->context();
  if (stream != nullptr) {
    context.call(context.driver().event_record, as_event(event_), as_stream(stream));
    return;
  }
  require_whole_context(*device_);
  context.call(context.driver().ctx_record_event, context.get(), as_event(event_));
}

void DeviceEvent::hold_up(ForeignStream stream) {
  const cuda::PrimaryContext& context = device_->context();
  if (stream != nullptr) {
    context.call(context.driver().stream_wait_event, as_stream(stream), as_event(event_), 0U);
    return;
  }
  require_whole_context(*device_);
  context.call(context.driver().ctx_wait_event, context.get(), as_event(event_));
}

bool DeviceEvent::is_complete() const {
  const cuda::PrimaryContext& context = device_->context();
  const cuda::Function query = context.driver().event_query;
  const cuda::Result result = context.try_call(query, as_event(event_));
  if (result == cuda::kNotReady) return false;
  context.require(result, query.name);
  return true;
}

DeviceStream::DeviceStream(std::shared_ptr<Device> device)
    : device_(std::move(device)), is_ours_(true) {
  cuda::Stream stream = nullptr;
  device_->context().call(device_->context().driver().stream_create, &stream, cuda::kNonBlocking);
  stream_ = stream;
}

DeviceStream::DeviceStream(std::shared_ptr<Device> device, ForeignStream stream)
    : device_(std::move(device)), stream_(stream), is_ours_(false) {
  if (stream == nullptr) throw UsageError("No stream is given.");
}

DeviceStream::~DeviceStream() {
  if (!is_ours_) return;
  cuda::PrimaryContext& context = device_->context();
  if (drain()) context.release(context.driver().stream_destroy, as_stream(stream_));
}

bool DeviceStream::drain() noexcept {
  cuda::PrimaryContext& context = device_->context();
  return context.becomes_true(context.name() + " has not finished its work",
                              [this] { return has_ended(); });
}

bool DeviceStream::has_ended() const noexcept {
  try {
    const cuda::PrimaryContext& context = device_->context();
    return context.try_call(context.driver().stream_query, as_stream(stream_)) != cuda::kNotReady;
  } catch (const Error&) {
    return true;
  }
}

void DeviceStream::wait_for(const DeviceEvent& event) {
  const cuda::PrimaryContext& context = device_->context();
  context.call(context.driver().stream_wait_event, as_stream(stream_), as_event(event.event_), 0U);
}

void DeviceStream::record(DeviceEvent& event) {
  event.record(stream_);
}

void DeviceStream::copy(DevicePointer to, DevicePointer from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  context.call(context.driver().memcpy_dtod_async, to, from, num_bytes, as_stream(stream_));
}

void DeviceStream::copy_to_host(void* to, DevicePointer from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  context.call(context.driver().memcpy_dtoh_async, to, from, num_bytes, as_stream(stream_));
}

void DeviceStream::copy_from_host(DevicePointer to, const void* from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  const cuda::PrimaryContext& context = device_->context();
  context.call(context.driver().memcpy_htod_async, to, from, num_bytes, as_stream(stream_));
}

void DeviceStream::call(std::function<void()> function) {
  // The driver's until it has called it; lost with a stream that fails.
  auto owned = std::make_unique<std::function<void()>>(std::move(function));
  const cuda::PrimaryContext& context = device_->context();
  context.call(
      context.driver().launch_host_func, as_stream(stream_),
      [](void* argument) {
        const std::unique_ptr<std::function<void()>> given(
            static_cast<std::function<void()>*>(argument));
        (*given)();
      },
      static_cast<void*>(owned.get()));
  static_cast<void>(owned.release());
}

void DeviceStream::synchronize(const Deadline& deadline) {
  const cuda::PrimaryContext& context = device_->context();
  const cuda::Function query = context.driver().stream_query;
  for (std::chrono::microseconds pause(20);; pause = std::min(2 * pause, cuda::kLongestPause)) {
    const cuda::Result result = context.try_call(query, as_stream(stream_));
    if (result != cuda::kNotReady) return context.require(result, query.name);
    if (deadline.is_over()) {
      throw Error(ErrorKind::comm, "GPU ", device_->ordinal(), " (", device_->name(),
                  ") has not finished its work within ", deadline.timeout_s(), " s.");
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tnt::comm
