#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/bucket_operation.hpp"
#include "tnt/comm/algorithm/bucket_windows.hpp"

namespace tnt::comm {

/// Allreduce of a small bucket, one per training step, among ranks that can
/// read each other's memory: every rank packs into a window that all can read,
/// and reduces everything for itself into private memory.
///
/// One round, but n times the bucket is read. See BucketWindows for why nobody
/// overwrites what somebody still reads.
class DirectBucketAllreduce final : public BucketOperation {
 public:
  DirectBucketAllreduce(std::shared_ptr<Health> health, std::shared_ptr<Segment> segment,
                        const BucketLayout& layout, DType dtype, std::size_t count,
                        std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;

 protected:
  Progress step() override;
  void announce(std::uint64_t step) override;
  std::vector<int> missing() const override;

 private:
  std::size_t count_;
  BucketWindows windows_;
  std::vector<std::byte> result_;
};

}  // namespace tnt::comm
