#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/bucket_windows.hpp"
#include "tnt/comm/algorithm/collective_operation.hpp"

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
///
/// The result of step s stays as it is until this rank opens step s+1; where
/// it is lent, until it is given back.
class BucketAllreduce final : public CollectiveOperation {
 public:
  BucketAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                  std::shared_ptr<Segment> segment, const BucketLayout& layout, DType dtype,
                  std::size_t count, std::string name);

  /// Says which of this rank's tensors have not been started; for messages.
  void set_own_part(std::function<std::string()> describe) {
    describe_own_part_ = std::move(describe);
  }

  /// Where the bucket of a step is packed. To be called for every tensor.
  std::byte* input(std::uint64_t step);

  /// The whole bucket of step `next` is packed: tells the others. Then the
  /// operation must be given to the engine. Any thread.
  void post();

  void complete() override;

  /// The completed step's whole bucket, to be read.
  const std::byte* result(std::uint64_t step) const;

  /// Lends the completed step's window, or null if that is not possible now.
  /// Nobody writes to it until the lent windows have taken it back.
  std::shared_ptr<WindowPair> try_lend(std::uint64_t step, std::size_t& window);

  /// Steps that this rank has posted.
  std::uint64_t num_posted() const { return num_posted_.load(); }

  bool awaits_this_rank() const override { return num_posted_.load() <= current_; }

 protected:
  Progress step() override;
  std::string describe() const override;
  std::vector<int> missing() const override;
  std::string own_part() const override;

 private:
  bool reduce_some();  // true when this rank's part of the work is done

  DType dtype_;
  std::size_t count_;
  std::string name_;
  bool is_direct_;
  BucketWindows windows_;
  std::vector<std::byte> direct_result_;
  std::function<std::string()> describe_own_part_;
  std::atomic<std::uint64_t> num_posted_{0};
  std::uint64_t current_ = 0;    // the step that is reduced
  std::size_t num_reduced_ = 0;  // elements of this rank's slice that are done
  bool is_published_ = false;
};

}  // namespace tnt::comm
