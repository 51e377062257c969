#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/collective/device/device_bucket.hpp"
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
  std::vector<std::shared_ptr<DeviceBucket>> of_device;
  std::vector<std::shared_ptr<BucketOperation>> of_host;
  DeviceEngine engine;
};

/// Why tensors of the GPU of that number cannot be summed there; empty if they can.
/// `is_stream_known`: streams are named in all calls.
TNT_COMM_EXPORT std::string obstacle_of_device(int ordinal, bool is_stream_known);

/// The GPU of that number; null for -1: this rank has none. CommError if it cannot be used.
TNT_COMM_EXPORT std::shared_ptr<Device> device_or_none(int ordinal);

/// Buckets of a reducer whose tensors are on GPUs; null: this rank has none. Collective among the
/// group, blocking, within create_together(). UsageError on all members if TNT_GPU_SUMS asks for
/// what cannot be had.
DeviceBuckets create_device_buckets(Group& group, SegmentSet& segments,
                                    const std::vector<BucketSpec>& specs,
                                    const std::shared_ptr<Device>& device);

}  // namespace tnt::comm
