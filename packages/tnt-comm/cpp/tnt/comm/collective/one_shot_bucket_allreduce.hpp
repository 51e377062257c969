#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/bucket_staging.hpp"

namespace tnt::comm {

/// Allreduce of a small bucket, one per training step, among ranks that can
/// read each other's memory: every rank packs into a slot that all can read,
/// and reduces everything for itself into private memory.
///
/// One round, but n times the bucket is read. See BucketStaging for why nobody
/// overwrites what somebody still reads.
class OneShotBucketAllreduce final : public BucketOperation {
 public:
  OneShotBucketAllreduce(std::shared_ptr<AbortState> abort_state, std::shared_ptr<Segment> segment,
                         const BucketLayout& layout, DType dtype, std::size_t count,
                         std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;

 protected:
  Progress do_advance() override;
  void announce(std::uint64_t step) override;
  std::vector<int> missing() const override;

 private:
  std::size_t count_;
  BucketStaging slots_;
  std::vector<std::byte> result_;
};

}  // namespace tnt::comm
