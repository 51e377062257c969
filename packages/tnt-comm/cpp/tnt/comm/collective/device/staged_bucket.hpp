#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/device/device_bucket.hpp"
#include "tnt/comm/collective/host_bucket.hpp"

namespace tnt::comm {

/// A bucket of a GPU that the hosts sum: it is copied to where its allreduce in the memory of the
/// host packs, and the sum back. The allreduce is any other bucket's, so that a rank without
/// a GPU may take part.
///
/// The driver copies without staging only from and to registered memory. Where the host's bucket
/// is always in the same place, that is registered; small ones move from slot to slot, and go
/// through registered memory of their own.
class StagedBucket final : public DeviceBucket {
 public:
  StagedBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
               const std::shared_ptr<DeviceWork>& work, std::shared_ptr<HostBucket> host);
  ~StagedBucket() override { drain(); }

  /// What the driver copies from and to.
  HostMemory copied_memory() const;
  /// Keeps it registered.
  void keep(std::shared_ptr<void> registration) { registration_ = std::move(registration); }

  void fail(const Error& error) override;

 protected:
  DevicePointer data(std::uint64_t) const override { return memory_.data(); }
  void follow_packing(std::uint64_t step) override;
  bool try_begin() override;
  Progress advance_step() override;
  std::vector<int> missing() const override;
  std::vector<int> awaited_members() const override { return missing(); }

 private:
  std::shared_ptr<HostBucket> host_;
  DeviceBuffer memory_;
  std::shared_ptr<Segment> staging_;  // null: straight to the host's bucket
  std::shared_ptr<void> registration_;
};

}  // namespace tnt::comm
