#include <array>
#include <cstdio>

#include "tnt/comm/device/device.hpp"
#include "tnt/comm/device/driver_library.hpp"

namespace tnt::comm {
namespace {

// As NVIDIA's tools write it: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string text_of(const cuda::Uuid& uuid) {
  std::string result = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) result += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", unsigned{uuid.bytes[i]});
    result += digits.data();
  }
  return result;
}

// The driver's answers, without a context of any GPU.
class Questions {
 public:
  explicit Questions(const cuda::Functions& driver) : driver_(driver) {}

  int count() const {
    int count = 0;
    ask(driver_.device_get_count, &count);
    return count;
  }

  cuda::DeviceNumber device(int ordinal) const {
    cuda::DeviceNumber device = 0;
    ask(driver_.device_get, &device, ordinal);
    return device;
  }

  DeviceReport::Entry entry(cuda::DeviceNumber device) const {
    std::array<char, 256> name{};
    std::array<char, 32> address{};
    cuda::Uuid uuid{};
    std::size_t total_bytes = 0;
    ask(driver_.device_get_name, name.data(), static_cast<int>(name.size()), device);
    ask(driver_.device_get_pci_bus_id, address.data(), static_cast<int>(address.size()), device);
    ask(driver_.device_get_uuid, &uuid, device);
    ask(driver_.device_total_mem, &total_bytes, device);
    return {name.data(), address.data(), text_of(uuid), total_bytes};
  }

  bool can_reach(cuda::DeviceNumber from, cuda::DeviceNumber to) const {
    if (from == to) return true;
    int can_access = 0;
    ask(driver_.device_can_access_peer, &can_access, from, to);
    return can_access != 0;
  }

 private:
  template <typename... Arguments, typename... Values>
  void ask(const cuda::Function<Arguments...>& function, Values... values) const {
    const cuda::Result result = function.call(values...);
    if (result == cuda::kSuccess) return;
    throw Error(ErrorKind::comm, "CUDA's ", function.name, " has failed with ",
                cuda::meaning_of(driver_, result), ".");
  }

  const cuda::Functions& driver_;
};

}  // namespace

DeviceReport describe_devices() {
  DeviceReport report;
  const cuda::Driver* driver = cuda::find_driver(report.reason);
  if (driver == nullptr) return report;
  report.driver_version = driver->version;
  const Questions questions(driver->functions);
  std::vector<cuda::DeviceNumber> devices;
  for (int i = 0; i < questions.count(); ++i) {
    devices.push_back(questions.device(i));
    report.devices.push_back(questions.entry(devices.back()));
  }
  for (const cuda::DeviceNumber from : devices) {
    std::vector<bool>& row = report.can_reach.emplace_back();
    for (const cuda::DeviceNumber to : devices) row.push_back(questions.can_reach(from, to));
  }
  return report;
}

}  // namespace tnt::comm
