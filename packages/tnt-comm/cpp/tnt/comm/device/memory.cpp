// Memory of GPUs, and that of the host which they know.

#include <utility>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/device/context.hpp"
#include "tnt/comm/device/device.hpp"

namespace tnt::comm {

DeviceBuffer::DeviceBuffer(std::shared_ptr<Device> device, std::size_t num_bytes)
    : device_(std::move(device)), num_bytes_(num_bytes) {
  cuda::PrimaryContext& context = device_->context();
  const cuda::Functions& driver = context.driver();
  context.call(driver.mem_alloc, &data_, num_bytes_ > 0 ? num_bytes_ : 1);
  try {
    // Ready when this returns, whatever stream is used next.
    DeviceStream stream(device_);
    if (num_bytes_ > 0)
      context.call(driver.memset_d8_async, data_, static_cast<unsigned char>(0), num_bytes_,
                   static_cast<cuda::Stream>(stream.get()));
    stream.synchronize(Deadline(context.limit_s()));
  } catch (...) {
    context.release(driver.mem_free, data_);
    throw;
  }
}

DeviceBuffer::~DeviceBuffer() {
  cuda::PrimaryContext& context = device_->context();
  context.release(context.driver().mem_free, data_);
}

IpcHandle DeviceBuffer::handle() const {
  cuda::IpcMemory memory{};
  device_->context().call(device_->context().driver().ipc_get_mem_handle, &memory, data_);
  return memory.bytes;
}

PeerBuffer::PeerBuffer(std::shared_ptr<Device> device, const IpcHandle& handle)
    : device_(std::move(device)) {
  device_->context().call(device_->context().driver().ipc_open_mem_handle, &data_,
                          cuda::IpcMemory{handle}, cuda::kLazyPeerAccess);
}

PeerBuffer::~PeerBuffer() {
  cuda::PrimaryContext& context = device_->context();
  context.release(context.driver().ipc_close_mem_handle, data_);
}

PinnedMemory::PinnedMemory(std::shared_ptr<Device> device, void* begin, std::size_t num_bytes)
    : device_(std::move(device)) {
  const std::uintptr_t page = page_bytes();
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = address / page * page;
  const std::uintptr_t end = (address + num_bytes + page - 1) / page * page;
  begin_ = reinterpret_cast<void*>(first);
  device_->context().call(device_->context().driver().mem_host_register, begin_,
                          static_cast<std::size_t>(end - first), cuda::kPortable);
}

PinnedMemory::~PinnedMemory() {
  cuda::PrimaryContext& context = device_->context();
  context.release(context.driver().mem_host_unregister, begin_);
}

}  // namespace tnt::comm
