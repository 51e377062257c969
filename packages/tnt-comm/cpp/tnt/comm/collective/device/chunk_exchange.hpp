#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/device/device.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"

namespace tnt::comm {

/// What becomes of a chunk that the GPUs of a host have summed, where there are several hosts: it
/// is copied into the memory of the host, exchanged with the ranks that have the same place on the
/// other hosts, and copied back. So a host sends each byte once, whatever number of GPUs it has.
///
/// 16-bit floats cross the network as float32 and are rounded once, at the end, as where
/// CPUs sum (see HierarchicalAllreduce).
class ChunkExchange {
 public:
  /// `exchange`: of `count` elements of the partial type, accumulator_of(dtype). `num_sources`:
  /// ranks of the host.
  ChunkExchange(const std::shared_ptr<Device>& device, DType dtype, std::size_t count,
                std::size_t num_sources, std::shared_ptr<HostBucket> exchange);

  /// Lets the stream sum the sources to where the exchange finds them.
  void pack(DeviceStream& stream, std::span<const DevicePointer> sources, const SumTree& on_host,
            std::uint64_t step);

  /// When the stream has done so, begins; then advances until it is done.
  void post() { exchange_->post(); }
  Progress advance();

  /// Lets the stream put the sum over all hosts there.
  void hand_out(DeviceStream& stream, DevicePointer target, std::uint64_t step);

  void fail(const Error& error) { exchange_->fail(error); }
  std::vector<int> missing() const { return exchange_->awaited_members(); }

  /// What the driver copies from and to.
  HostMemory copied_memory() const { return exchange_->memory(); }

 private:
  bool is_rounded() const { return accumulator_of(dtype_) != dtype_; }
  std::size_t num_partial_bytes() const { return count_ * size_of(accumulator_of(dtype_)); }

  DType dtype_;
  std::size_t count_;
  std::shared_ptr<HostBucket> exchange_;
  DeviceBuffer partial_;
  DeviceBuffer widened_;  // the sources, if they are
};

}  // namespace tnt::comm
