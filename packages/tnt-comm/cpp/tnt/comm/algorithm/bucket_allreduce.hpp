#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/channel.hpp"
#include "tnt/comm/algorithm/collective_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of a bucket that lives in a channel's windows, one per training
/// step, over and over.
///
/// The idea: ranks pack straight into memory their peers can read, so the
/// reduction needs no further copy.
///
///  - *Sliced* (large buckets): rank r reduces slice r of all windows into its
///    own window. Slice r of the other windows is read by nobody else, slice r
///    of its own by nobody before it is `reduced`. Whoever wants the result
///    then reads slice r from rank r. Two rounds; per rank (n + 1)/n of the
///    bucket is moved by the reduction.
///  - *Direct* (small buckets): every rank reduces everything for itself into
///    private memory. One round, but n times the bucket is read.
///
/// Both use the same tree, so the bits are the same.
///
/// The result of step s stays readable until this rank starts step s+1: see
/// Channel for why nobody overwrites it.
class BucketAllreduce final : public CollectiveOperation {
 public:
  BucketAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                  std::shared_ptr<Segment> segment, const ChannelLayout& layout, DType dtype,
                  std::size_t count, std::string name);

  /// Where the bucket of a step is packed.
  std::byte* input(std::uint64_t step) { return channel_.window(step); }

  /// The whole bucket of step `next` is packed: tells the others. Then the
  /// operation must be given to the engine. Any thread.
  void post();

  void complete() override;

  /// Copies elements [begin, end) of the completed step's result to `out`.
  void copy_result(std::uint64_t step, std::size_t begin, std::size_t end, void* out) const;

 protected:
  Progress step() override;
  std::string describe() const override;
  std::vector<int> missing() const override;
  std::string own_part() const override;

 private:
  bool reduce_some();  // true when this rank's slice is reduced

  Channel channel_;
  DType dtype_;
  std::size_t count_;
  std::string name_;
  bool is_direct_;
  std::vector<std::byte> direct_result_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
  std::atomic<std::uint64_t> num_posted_{0};
  std::uint64_t current_ = 0;    // the step that is reduced
  std::size_t num_reduced_ = 0;  // elements of this rank's slice that are done
  bool is_published_ = false;
};

}  // namespace tnt::comm
