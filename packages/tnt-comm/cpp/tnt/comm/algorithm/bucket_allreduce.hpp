#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/bucket_operation.hpp"
#include "tnt/comm/algorithm/bucket_windows.hpp"

namespace tnt::comm {

/// Allreduce of a bucket that lives in windows its peers can reach, one per
/// training step, over and over.
///
/// The idea: ranks pack straight into memory that all can read and write, so
/// the reduction needs no further copy.
///
///  - *Sliced* (large buckets): rank r reduces slice r of all windows and
///    writes the result to slice r of all windows. Nobody else reads or writes
///    slice r. In the end each rank holds the whole result in its own window.
///    Two rounds; per rank n/n of the bucket is read and n/n written.
///  - *Direct* (small buckets): every rank reduces everything for itself into
///    private memory. One round, but n times the bucket is read.
///
/// Both use the same tree, so the bits are the same. See BucketWindows for why
/// nobody overwrites what somebody still reads.
class BucketAllreduce final : public BucketOperation {
 public:
  BucketAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                  std::shared_ptr<Segment> segment, const BucketLayout& layout, DType dtype,
                  std::size_t count, std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;
  std::shared_ptr<WindowPair> try_lend(std::uint64_t step, std::size_t& window) override;

 protected:
  Progress step() override;
  void announce(std::uint64_t step) override;
  void reset() override;
  std::vector<int> missing() const override;

 private:
  bool reduce_some();  // true when this rank's part of the work is done

  DType dtype_;
  std::size_t count_;
  bool is_direct_;
  BucketWindows windows_;
  std::vector<std::byte> direct_result_;
  std::size_t num_reduced_ = 0;  // elements of this rank's slice that are done
  bool is_published_ = false;
};

}  // namespace tnt::comm
