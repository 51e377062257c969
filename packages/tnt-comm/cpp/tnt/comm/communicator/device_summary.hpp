#pragma once

#include <string>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/device/device.hpp"

namespace tnt::comm {

/// What would sum tensors of the GPUs that this process sees, if each were that of a rank here.
struct DeviceSummary {
  DeviceReport report;
  std::string engine = {};  ///< "ipc" or "host"; "none" without a GPU, or with what is asked
  std::string why = {};     ///< a sentence
};

/// Pure.
DeviceSummary summarize(const DeviceReport& report, GpuSums asked);

/// Of the driver and of TNT_GPU_SUMS. What the driver does not answer is the reason of the report.
TNT_COMM_EXPORT DeviceSummary summarize_devices();

}  // namespace tnt::comm
