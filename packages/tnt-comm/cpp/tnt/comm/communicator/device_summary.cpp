#include "tnt/comm/communicator/device_summary.hpp"

#include <optional>

namespace tnt::comm {
namespace {

// Two GPUs of which one does not reach the other, as a sentence.
std::optional<std::string> gap_of(const DeviceReport& report) {
  for (std::size_t from = 0; from < report.devices.size(); ++from) {
    for (std::size_t to = 0; to < report.devices.size(); ++to) {
      if (report.can_reach[from][to]) continue;
      return text("GPU ", from, " (", report.devices[from].pci_address,
                  ") does not reach the memory of GPU ", to, " (", report.devices[to].pci_address,
                  ").");
    }
  }
  return std::nullopt;
}

}  // namespace

DeviceSummary summarize(const DeviceReport& report, GpuSums asked) {
  if (!report.reason.empty()) return {report, "none", report.reason};
  if (asked == GpuSums::host) return {report, "host", "TNT_GPU_SUMS is host."};
  if (const auto gap = gap_of(report)) {
    if (asked == GpuSums::automatic) return {report, "host", *gap};
    return {report, "none", text("TNT_GPU_SUMS=ipc cannot be had: ", *gap)};
  }
  const bool is_alone = report.devices.size() == 1;
  return {report, "ipc", is_alone ? "There is one GPU." : "All GPUs reach each other's memory."};
}

DeviceSummary summarize_devices() {
  const GpuSums asked = read_environment().gpu_sums;
  DeviceReport report;
  try {
    report = describe_devices();
  } catch (const Error& error) {
    report.reason = error.what();
  }
  return summarize(report, asked);
}

}  // namespace tnt::comm
