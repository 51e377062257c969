#include "tnt/comm/device/device.hpp"

#include <map>
#include <mutex>

#include "tnt/comm/device/context.hpp"

namespace tnt::comm {
namespace {

// As the driver writes it: "0000:3b:00.0".
constexpr std::size_t kPciAddressBytes = 16;

}  // namespace

std::shared_ptr<Device> Device::find(int ordinal, std::string& reason) {
  static std::mutex mutex;
  static auto* found = new std::map<int, std::weak_ptr<Device>>();  // outlives static objects
  if (cuda::find_driver(reason) == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  if (auto device = (*found)[ordinal].lock()) return device;
  try {
    const auto device = std::make_shared<Device>(ordinal);
    (*found)[ordinal] = device;
    return device;
  } catch (const Error& error) {
    reason = error.what();
    return nullptr;
  }
}

Device::Device(int ordinal)
    : ordinal_(ordinal), context_(std::make_unique<cuda::PrimaryContext>(ordinal)) {
  const cuda::Functions& driver = context_->driver();
  std::array<char, 256> name{};
  context_->call(driver.device_get_name, name.data(), static_cast<int>(name.size()),
                 context_->device());
  name_ = name.data();
  std::array<char, kPciAddressBytes> address{};
  context_->call(driver.device_get_pci_bus_id, address.data(), static_cast<int>(address.size()),
                 context_->device());
  pci_address_ = address.data();
}

Device::~Device() = default;

bool Device::can_order_whole_context() const {
  const cuda::Functions& driver = context_->driver();
  return driver.ctx_record_event.call != nullptr && driver.ctx_wait_event.call != nullptr;
}

std::optional<bool> Device::can_reach(const std::string& pci_address) const {
  if (pci_address == pci_address_) return true;
  const cuda::Functions& driver = context_->driver();
  cuda::DeviceNumber peer = 0;
  if (context_->try_call(driver.device_get_by_pci_bus_id, &peer, pci_address.c_str()) !=
      cuda::kSuccess) {
    return std::nullopt;
  }
  int can_access = 0;
  context_->call(driver.device_can_access_peer, &can_access, context_->device(), peer);
  return can_access != 0;
}

}  // namespace tnt::comm
