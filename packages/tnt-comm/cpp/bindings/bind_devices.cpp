#include <pybind11/stl.h>

#include "bindings.hpp"
#include "tnt/comm/communicator/device_summary.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

py::dict dict_of(const DeviceSummary& summary) {
  using py::literals::operator""_a;
  const DeviceReport& report = summary.report;
  py::list devices;
  for (const DeviceReport::Entry& device : report.devices) {
    devices.append(py::dict("name"_a = device.name, "pci"_a = device.pci_address,
                            "uuid"_a = device.uuid, "total_bytes"_a = device.total_bytes));
  }
  return py::dict("is_available"_a = report.reason.empty(), "reason"_a = report.reason,
                  "driver_version"_a = report.driver_version, "devices"_a = devices,
                  "can_access_peer"_a = report.can_reach, "engine"_a = summary.engine,
                  "why"_a = summary.why);
}

DeviceSummary summarize_unlocked() {
  const Unlocked unlocked;
  return summarize_devices();
}

}  // namespace

void bind_devices(py::module_& module) {
  module.def("describe_devices", [] { return dict_of(summarize_unlocked()); });
}

}  // namespace tnt::comm::bindings
