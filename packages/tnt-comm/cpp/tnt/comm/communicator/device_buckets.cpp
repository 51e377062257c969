#include "tnt/comm/communicator/device_buckets.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "tnt/comm/collective/device/ipc_bucket.hpp"
#include "tnt/comm/collective/device/registered_pages.hpp"
#include "tnt/comm/collective/device/staged_bucket.hpp"
#include "tnt/comm/communicator/ipc_opening.hpp"
#include "tnt/comm/communicator/streams.hpp"

namespace tnt::comm {
namespace {

// Where nothing needs to be asked: the same on all members but for their settings.
std::string obstacle_of_group(const Group& group, const std::vector<BucketSpec>& specs,
                              const std::shared_ptr<Device>& device) {
  const bool is_summed = std::ranges::all_of(
      specs, [](const BucketSpec& spec) { return is_summed_on_devices(spec.dtype); });
  if (group.runtime().environment().gpu_sums == GpuSums::host) return "TNT_GPU_SUMS is host";
  if (!device) return "it has no GPU";
  if (group.topology() == Topology::put_only) {
    return "the sum of the ranks of a host is no step in the order of summation, or each is on a "
           "host of its own";
  }
  if (num_on_host(group) > kMostDeviceSources) return "there are too many ranks on the host";
  if (!is_summed) return "it sums other types than floating-point numbers";
  return {};
}

std::vector<IpcBucket::Layout> lay_out(const std::vector<BucketSpec>& specs) {
  constexpr std::size_t kAlignment = 256;
  std::vector<IpcBucket::Layout> layouts;
  std::size_t end = 0;
  for (const BucketSpec& spec : specs) {
    const std::size_t part_bytes = round_up(spec.num_bytes(), kAlignment);
    layouts.push_back({end, part_bytes, IpcBucket::kNumNotifications * layouts.size()});
    end += IpcBucket::kNumParts * part_bytes;
  }
  layouts.push_back({end, 0, IpcBucket::kNumNotifications * layouts.size()});  // of all
  return layouts;
}

template <typename Bucket>
void register_memory(const Group& group, const std::shared_ptr<Device>& device,
                     const std::vector<std::shared_ptr<Bucket>>& buckets) {
  std::vector<HostMemory> pieces;
  for (const auto& bucket : buckets) pieces.push_back(bucket->copied_memory());
  try {
    const auto pages = std::make_shared<RegisteredPages>(device, std::move(pieces));
    for (const auto& bucket : buckets) bucket->keep(pages);
  } catch (const Error& error) {
    log_warning(group.abort_state()->world_rank(), error.what(),
                " Copies between GPU and host will be slow. [gpu-memory-not-registered]");
  }
}

// Others may still copy from this rank's GPU when it has all it needs.
void wait_before_leaving(Group& group, const std::shared_ptr<IpcMemory>& memory) {
  constexpr double kLongestS = 10.0;
  const int first = first_on_host(group);
  group.runtime().before_leaving(
      memory, [memory = memory.get(), abort_state = group.abort_state(), first] {
        memory->wait_for_readers(Deadline(kLongestS), [&](int local_rank) {
          return abort_state->status_of(first + local_rank).state == PeerState::running;
        });
      });
}

using IpcBuckets = std::vector<std::shared_ptr<IpcBucket>>;

// What this rank's GPU has of them. `exchanges`: with other hosts; none if there are none.
IpcBuckets make_ipc_parts(Group& group, const std::vector<BucketSpec>& specs,
                          const std::vector<IpcBucket::Layout>& layouts,
                          const std::shared_ptr<Device>& device, const IpcBucket::Host& host,
                          const std::vector<std::shared_ptr<HostBucket>>& exchanges) {
  IpcBuckets buckets;
  const auto work = std::make_shared<DeviceWork>(device, group.engine().bell());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto exchange = exchanges.empty()
                        ? nullptr
                        : std::make_unique<ChunkExchange>(device, specs[i].dtype,
                                                          chunk_of_host(group, specs[i]).size(),
                                                          host.memory->size(), exchanges[i]);
    buckets.push_back(make_device_bucket<IpcBucket>(group.abort_state(), specs[i], work, host,
                                                    layouts[i], std::move(exchange)));
  }
  return buckets;
}

// None, and why, if a GPU has no room for its part.
IpcBuckets make_ipc(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs,
                    const std::vector<IpcBucket::Layout>& layouts,
                    const std::shared_ptr<Device>& device, std::shared_ptr<IpcMemory> memory,
                    std::string& obstacle) {
  const bool has_other_hosts = group.topology() == Topology::hierarchical;
  const NotificationId end = layouts.back().first;
  const MemoryNeeds needs{1, end + IpcMemory::kNumNotifications};
  const IpcBucket::Host host{
      .first_member = first_on_host(group),
      .tree = has_other_hosts ? group.hosts().on_host : group.tree(),
      .memory = std::move(memory),
      .segment = has_other_hosts ? segments.create_on_host(needs) : segments.create(needs)};
  const auto exchanges = has_other_hosts ? create_chunk_buckets(group, segments, specs)
                                         : std::vector<std::shared_ptr<HostBucket>>();
  IpcBuckets buckets;
  const Agreement made(group, [&] {
    make_or_warn(group,
                 [&] { buckets = make_ipc_parts(group, specs, layouts, device, host, exchanges); });
    return std::string();
  });
  if (!(obstacle = made.obstacle()).empty()) {
    close_memory(group, *host.memory);
    return {};
  }
  host.memory->join(host.segment, end);
  wait_before_leaving(group, host.memory);
  register_memory(group, device, buckets);
  return buckets;
}

void make_staged(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs,
                 DeviceBuckets& result) {
  result.of_host = create_buckets(group, segments, specs);
  if (!result.device) return;
  std::vector<std::shared_ptr<StagedBucket>> buckets;
  try {
    const auto work = std::make_shared<DeviceWork>(result.device, group.engine().bell());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      buckets.push_back(
          make_device_bucket<StagedBucket>(group.abort_state(), specs[i], work, result.of_host[i]));
    }
  } catch (const Error& error) {
    log_warning(group.abort_state()->world_rank(), error.what(),
                " Gradients of this GPU are summed by the host, and copied there and back by the"
                " program. [gpu-memory-short]");
    result.device = nullptr;
    return;
  }
  register_memory(group, result.device, buckets);
  result.of_host.clear();
  result.of_device = {buckets.begin(), buckets.end()};
}

void make_solo(Group& group, const std::vector<BucketSpec>& specs, DeviceBuckets& result) {
  const auto work = std::make_shared<DeviceWork>(result.device, group.engine().bell());
  for (const BucketSpec& spec : specs) {
    result.of_device.push_back(
        make_device_bucket<SoloDeviceBucket>(group.abort_state(), spec, work));
  }
}

// The GPUs of all members, and the obstacle to sums between them that needs no trying.
Agreement find_gpus(Group& group, const std::vector<BucketSpec>& specs,
                    const DeviceFinder& find_device, std::shared_ptr<Device>& device) {
  std::exception_ptr failure;
  Agreement present(group, [&] {
    try {
      device = find_device();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
    const std::string own = obstacle_of_group(group, specs, device);
    if (!own.empty()) throw UsageError(own);
    return device->pci_address();
  });
  if (failure) std::rethrow_exception(failure);
  return present;
}

}  // namespace

std::string obstacle_of_device(int ordinal, bool is_stream_known) {
  // Reducers will use it, and to make its kernels anew takes time.
  static auto* kept = new std::vector<std::shared_ptr<Device>>();
  static std::mutex mutex;
  std::string reason;
  const auto device = Device::find(ordinal, reason);
  const std::lock_guard lock(mutex);
  if (device && std::ranges::count(*kept, device) == 0) kept->push_back(device);
  if (!device || is_stream_known || device->can_order_whole_context()) return reason;
  return "The stream of the tensors is not known, and the driver cannot wait for all streams:"
         " update it to that of CUDA 12.5 or later.";
}

DeviceFinder device_finder(int ordinal) {
  return [ordinal]() -> std::shared_ptr<Device> {
    if (ordinal == -1) return nullptr;
    std::string reason;
    if (auto device = Device::find(ordinal, reason)) return device;
    throw Error(ErrorKind::comm, reason);
  };
}

DeviceBuckets create_device_buckets(Group& group, SegmentSet& segments,
                                    const std::vector<BucketSpec>& specs,
                                    const DeviceFinder& find_device) {
  DeviceBuckets result;
  if (group.size() == 1) {
    result.device = find_device();
    result.engine.reason = "there is one rank";
    if (result.device) {
      make_solo(group, specs, result);
    } else {
      result.of_host = create_buckets(group, segments, specs);
    }
    return result;
  }
  const Agreement gpus = find_gpus(group, specs, find_device, result.device);
  const std::vector<IpcBucket::Layout> layouts = lay_out(specs);
  std::string obstacle = gpus.obstacle();
  auto memory = obstacle.empty() ? open_memory(group, gpus.texts(), result.device,
                                               layouts.back().offset, obstacle)
                                 : nullptr;
  if (memory) {
    const IpcBuckets buckets =
        make_ipc(group, segments, specs, layouts, result.device, std::move(memory), obstacle);
    result.of_device = {buckets.begin(), buckets.end()};
  }
  if (obstacle.empty()) {
    result.engine = {GpuSums::ipc, "all GPUs of a host reach each other"};
    return result;
  }
  if (group.runtime().environment().gpu_sums == GpuSums::ipc) {
    throw UsageError("TNT_GPU_SUMS=ipc cannot be had: ", obstacle,
                     ". Set it to auto, or to host, for sums by the CPUs.");
  }
  result.engine = {GpuSums::host, obstacle};
  make_staged(group, segments, specs, result);
  return result;
}

}  // namespace tnt::comm
