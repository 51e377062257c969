#include "tnt/comm/collective/device/staged_bucket.hpp"

#include <cstring>

#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {

StagedBucket::StagedBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
                           const std::shared_ptr<DeviceWork>& work,
                           std::shared_ptr<HostBucket> host)
    : DeviceBucket(std::move(abort_state), spec, work),
      host_(std::move(host)),
      memory_(work->device, spec.num_bytes()) {
  if (!host_->memory().owner) staging_ = std::make_shared<HeapSegment>(spec.num_bytes());
}

HostMemory StagedBucket::copied_memory() const {
  return staging_ ? HostMemory{staging_, staging_->local(), num_bytes()} : host_->memory();
}

void StagedBucket::follow_packing(std::uint64_t step) {
  std::byte* const to = staging_ ? staging_->local() : host_->input(step);
  packing().copy_to_host(to, memory_.data(), num_bytes());
}

bool StagedBucket::try_begin() {
  if (!is_packed()) return false;
  if (staging_) std::memcpy(host_->input(current()), staging_->local(), num_bytes());
  host_->post();
  return true;
}

Progress StagedBucket::advance_step() {
  const Progress progress = host_->advance();
  if (progress != Progress::done) return progress;
  host_->complete();
  const std::byte* from = host_->result(current());
  if (staging_) {
    std::memcpy(staging_->local(), from, num_bytes());
    from = staging_->local();
  }
  summing().copy_from_host(memory_.data(), from, num_bytes());
  mark_result(summing());
  return Progress::done;
}

void StagedBucket::fail(const Error& error) {
  host_->fail(error);
  DeviceBucket::fail(error);
}

std::vector<int> StagedBucket::missing() const {
  return has_begun() ? host_->awaited_members() : std::vector<int>{};
}

}  // namespace tnt::comm
