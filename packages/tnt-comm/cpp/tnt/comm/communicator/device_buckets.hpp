#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/collective/device/device_bucket.hpp"
#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/group_object.hpp"

namespace tnt::comm {

/// What sums the buckets of GPUs, and why that.
struct DeviceEngine {
  GpuSums engine = GpuSums::host;  ///< not automatic
  std::string reason = {};         ///< a clause, such as "all GPUs of a host reach each other"
};

/// The buckets of a rank: those of its GPU, or of the host if it has none, although others have.
struct DeviceBuckets {
  std::shared_ptr<Device> device;  ///< null: those of the host
  std::vector<std::shared_ptr<DeviceBucket>> of_device;
  std::vector<std::shared_ptr<HostBucket>> of_host;
  DeviceEngine engine;
};

/// Why tensors of the GPU of that number cannot be summed there; empty if they can.
/// `is_stream_known`: streams are named in all calls.
TNT_COMM_EXPORT std::string obstacle_of_device(int ordinal, bool is_stream_known);

/// Finds the GPU of this rank; null if it has none. Throws if that cannot be used.
using DeviceFinder = std::function<std::shared_ptr<Device>()>;

/// For the GPU of that number; -1: this rank has none.
TNT_COMM_EXPORT DeviceFinder device_finder(int ordinal);

/// Buckets of a reducer whose tensors are on GPUs. Collective among the group, blocking, within
/// create_together(). UsageError if TNT_GPU_SUMS asks for what cannot be had. If a GPU has no
/// memory left for sums by the GPUs, all ranks have them by the hosts; a rank whose GPU has none
/// even for that gets buckets of the host. Each with a warning.
DeviceBuckets create_device_buckets(Group& group, SegmentSet& segments,
                                    const std::vector<BucketSpec>& specs,
                                    const DeviceFinder& find_device);

}  // namespace tnt::comm
