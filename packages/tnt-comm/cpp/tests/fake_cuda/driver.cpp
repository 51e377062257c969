#include "fake_cuda/driver.hpp"

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

using cuda::Result;

thread_local std::vector<DeviceContext*> contexts_of_thread;

// Calls that have not returned. It orders nobody but who waits for all.
std::atomic<int> num_calls{0};

// A call of a function: what it gives at once, if it gives an error.
class Call {
 public:
  explicit Call(const char* function) {
    num_calls.fetch_add(1, std::memory_order_relaxed);
    if (objects().has_failures.load(std::memory_order_relaxed)) result_ = failure_of(function);
    if (result_ == cuda::kSuccess) result_ = course().error.load(std::memory_order_relaxed);
  }
  ~Call() { num_calls.fetch_sub(1, std::memory_order_release); }
  Call(Call&&) = delete;

  bool is_refused() {
    if (result_ == cuda::kSuccess && !objects().is_initialized) result_ = cuda::kNotInitialized;
    return result_ != cuda::kSuccess;
  }

  // Likewise of one that needs a context of its thread.
  bool has_no_context() {
    if (is_refused()) return true;
    if (current_context() == nullptr) result_ = cuda::kInvalidContext;
    return result_ != cuda::kSuccess;
  }

  Result result() const { return result_; }

 private:
  static Result failure_of(const char* function) {
    Objects& all = objects();
    const std::lock_guard lock(all.mutex);
    const auto found = all.failures.find(function);
    if (found == all.failures.end() || --found->second.number != 0) return cuda::kSuccess;
    return found->second.result;
  }

  Result result_ = cuda::kSuccess;
};

Stream* stream_of(cuda::Stream stream) {
  return reinterpret_cast<Stream*>(stream);
}

EventObject* event_of(cuda::Event event) {
  return reinterpret_cast<EventObject*>(event);
}

DeviceContext* context_of(cuda::Context context) {
  return reinterpret_cast<DeviceContext*>(context);
}

bool is_device(cuda::DeviceNumber device) {
  return device >= 0 && device < objects().num_devices;
}

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

// All streams that are open; whoever holds the lock of the context.
std::vector<std::shared_ptr<Stream>> open_streams(const DeviceContext& context) {
  std::vector<std::shared_ptr<Stream>> result;
  for (const auto& stream : context.streams) {
    if (!stream->is_closed()) result.push_back(stream);
  }
  return result;
}

void wait_for_all_streams(DeviceContext& context) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(context.mutex);
    streams = open_streams(context);
  }
  for (const auto& stream : streams) stream->wait();
}

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

DeviceContext* current_context() {
  return contexts_of_thread.empty() ? nullptr : contexts_of_thread.back();
}

void apply_number_of_devices(int num_devices, int first_device) {
  objects().num_devices = num_devices;
  objects().first_device = first_device;
  for (int i = 0; i < Objects::kMostDevices; ++i) {
    objects().contexts[static_cast<std::size_t>(i)].ordinal = i;
    apply_reach(i, ~0U);
  }
}

void apply_reach(int from, unsigned reachable) {
  objects().reachable[static_cast<std::size_t>(from)] = reachable;
}

void apply_version(int version) {
  objects().version = version;
}

void apply_seed(unsigned seed) {
  objects().seed = seed;
}

void apply_failure(const char* function, int number, Result result) {
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  all.failures[function] = {number, result};
  all.has_failures = true;
}

void reset_driver() {
  Objects& all = objects();
  course().is_ending = true;
  while (num_calls.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  for (DeviceContext& context : all.contexts) {
    context.streams.clear();
    context.gate.reset();
    context.num_retained = 0;
  }
  all.memory.clear();
  all.failures.clear();
  all.has_failures = false;
  all.is_initialized = false;
  all.events.clear();
  all.marks.clear();
  all.modules.clear();
  all.num_streams = 0;
  all.num_streams_made = 0;
  Course& at_first = course();
  at_first.is_hung = at_first.is_ending = false;
  at_first.error = 0;
  at_first.num_until_hung = -1;
  at_first.longest_delay_us = 0;
}

std::size_t num_objects_left() {
  Objects& all = objects();
  int num_open = all.num_streams;
  for (const DeviceContext& context : all.contexts) num_open += context.num_retained;
  const std::lock_guard lock(all.mutex);
  return all.memory.num_left() + all.events.size() + all.modules.size() +
         static_cast<std::size_t>(num_open);
}

std::size_t num_kept() {
  Objects& all = objects();
  std::size_t num_streams = 0;
  for (DeviceContext& context : all.contexts) {
    const std::lock_guard lock(context.mutex);
    num_streams += context.streams.size();
  }
  const std::lock_guard lock(all.mutex);
  return num_streams + all.marks.size();
}

}  // namespace tnt::comm::tests::fake_cuda

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

// ---- the driver and its devices ----

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

FAKE_CUDA_API cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount");
  if (call.is_refused()) return call.result();
  *count = objects().num_devices;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGet(cuda::DeviceNumber* device, int ordinal) {
  Call call("cuDeviceGet");
  if (call.is_refused()) return call.result();
  if (!is_device(ordinal)) return cuda::kInvalidDevice;
  *device = ordinal;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetName(char* name, int room, cuda::DeviceNumber device) {
  Call call("cuDeviceGetName");
  if (call.is_refused()) return call.result();
  if (!is_device(device)) return cuda::kInvalidDevice;
  write_text(name, room, "Stand-in GPU");
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::DeviceNumber device) {
  Call call("cuDeviceGetUuid_v2");
  if (call.is_refused()) return call.result();
  if (!is_device(device)) return cuda::kInvalidDevice;
  for (std::size_t i = 0; i < uuid->bytes.size(); ++i) {
    uuid->bytes[i] = static_cast<unsigned char>(i);
  }
  uuid->bytes.back() = static_cast<unsigned char>(device);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceTotalMem_v2(std::size_t* num_bytes, cuda::DeviceNumber device) {
  Call call("cuDeviceTotalMem_v2");
  if (call.is_refused()) return call.result();
  if (!is_device(device)) return cuda::kInvalidDevice;
  *num_bytes = std::size_t{4} << 30;
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetAttribute(int* value, int attribute, cuda::DeviceNumber device) {
  Call call("cuDeviceGetAttribute");
  if (call.is_refused()) return call.result();
  if (!is_device(device)) return cuda::kInvalidDevice;
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
  if (!is_device(device)) return cuda::kInvalidDevice;
  write_text(address, room, pci_address_of(device));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDeviceGetByPCIBusId(cuda::DeviceNumber* device, const char* address) {
  Call call("cuDeviceGetByPCIBusId");
  if (call.is_refused()) return call.result();
  for (*device = 0; is_device(*device); ++*device) {
    if (pci_address_of(*device) == address) return cuda::kSuccess;
  }
  return cuda::kInvalidDevice;
}

FAKE_CUDA_API cuDeviceCanAccessPeer(int* can, cuda::DeviceNumber device, cuda::DeviceNumber peer) {
  Call call("cuDeviceCanAccessPeer");
  if (call.is_refused()) return call.result();
  if (!is_device(device) || !is_device(peer)) return cuda::kInvalidDevice;
  *can = device != peer && can_reach(device, peer) ? 1 : 0;  // not itself, as the real one says
  return cuda::kSuccess;
}

// ---- contexts ----

FAKE_CUDA_API cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::DeviceNumber device) {
  Call call("cuDevicePrimaryCtxRetain");
  if (call.is_refused()) return call.result();
  if (!is_device(device)) return cuda::kInvalidDevice;
  DeviceContext& found = objects().contexts[static_cast<std::size_t>(device)];
  found.num_retained.fetch_add(1, std::memory_order_relaxed);
  *context = reinterpret_cast<cuda::Context>(&found);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuDevicePrimaryCtxRelease_v2(cuda::DeviceNumber device) {
  if (!is_device(device)) return cuda::kInvalidDevice;
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
  const auto streams = open_streams(context);
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
  for (const auto& stream : open_streams(context)) stream->push_wait(mark);
  if (!context.gate) context.gate = std::make_unique<Stream>(context.ordinal, objects().seed);
  context.gate->push_wait(mark);
  return cuda::kSuccess;
}

// ---- memory ----

FAKE_CUDA_API cuMemAlloc_v2(cuda::Pointer* pointer, std::size_t num_bytes) {
  Call call("cuMemAlloc_v2");
  if (call.has_no_context()) return call.result();
  return objects().memory.allocate(current_context()->ordinal, num_bytes, pointer);
}

FAKE_CUDA_API cuMemFree_v2(cuda::Pointer pointer) {
  Call call("cuMemFree_v2");
  if (current_context() == nullptr) return cuda::kInvalidContext;
  wait_for_all_streams(*current_context());
  const cuda::Result result = objects().memory.free(pointer);
  return result == cuda::kSuccess ? call.result() : result;
}

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

// ---- copies ----

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

// ---- streams and events ----

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

// ---- kernels ----

FAKE_CUDA_API cuModuleLoadData(cuda::Module* module, const void* image) {
  Call call("cuModuleLoadData");
  if (call.has_no_context()) return call.result();
  auto text = std::make_unique<std::string>(static_cast<const char*>(image));
  *module = reinterpret_cast<cuda::Module>(text.get());
  const std::lock_guard lock(objects().mutex);
  objects().modules[*module] = std::move(text);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuModuleUnload(cuda::Module module) {
  Call call("cuModuleUnload");
  const std::lock_guard lock(objects().mutex);
  return objects().modules.erase(module) == 0 ? cuda::kInvalidHandle : call.result();
}

FAKE_CUDA_API cuModuleGetFunction(cuda::Kernel* kernel, cuda::Module module, const char* name) {
  Call call("cuModuleGetFunction");
  if (call.has_no_context()) return call.result();
  // As a text of PTX declares it.
  const std::string declaration = std::string(".visible .entry ") + name + "(";
  const auto& image = *reinterpret_cast<const std::string*>(module);
  const KernelFunction* function = find_kernel(name);
  if (function == nullptr || image.find(declaration) == std::string::npos) return cuda::kNotFound;
  *kernel = reinterpret_cast<cuda::Kernel>(const_cast<KernelFunction*>(function));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuLaunchKernel(cuda::Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                             cuda::Stream stream, void** arguments, void** extra) {
  Call call("cuLaunchKernel");
  if (call.has_no_context()) return call.result();
  const bool is_line = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
  if (!is_line || grid_x == 0 || block_x == 0 || block_x > 1024 || extra != nullptr) {
    return cuda::kInvalidValue;
  }
  if (kernel == nullptr || stream == nullptr) return cuda::kInvalidHandle;
  const auto translate = [](cuda::Pointer pointer, std::size_t num_bytes) -> std::byte* {
    const Memory::Place place = objects().memory.find(pointer, num_bytes);
    // That of another device must have been opened by its handle, which makes it reachable.
    const bool is_usable = place.is_opened || place.device == current_context()->ordinal;
    return is_usable ? place.bytes : nullptr;
  };
  const auto work = (*reinterpret_cast<const KernelFunction*>(kernel))(arguments[0], translate);
  if (!work) return cuda::kIllegalAddress;
  stream_of(stream)->push(*work);
  return cuda::kSuccess;
}
