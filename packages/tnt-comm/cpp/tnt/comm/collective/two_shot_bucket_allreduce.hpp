#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/bucket_sequencer.hpp"
#include "tnt/comm/collective/two_shot_blocks.hpp"

namespace tnt::comm {

/// Allreduce of a large bucket, one per training step, among ranks that can
/// read each other's memory: it goes block by block through slots that stay
/// in the caches and that it shares with other buckets, see BucketSequencer.
///
/// So its tensors need not be in memory that others can reach. Large ones stay
/// where they are and are summed there; small ones, and those whose owner wants
/// them back at once, are packed into private memory, of which nothing is taken
/// that is not used.
class TwoShotBucketAllreduce final : public BucketOperation, private StagedWork {
 public:
  /// The `bucket`-th of those that share the sequencer. `large`: elements of the
  /// tensors that can be placed, in ascending order.
  TwoShotBucketAllreduce(std::shared_ptr<AbortState> abort_state,
                         std::shared_ptr<BucketSequencer> sequencer, std::size_t bucket,
                         DType dtype, std::size_t count, std::vector<Range> large,
                         std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;
  std::shared_ptr<DoubleBuffer> try_lend(std::uint64_t step, std::size_t& slot) override;
  bool may_be_in_place(std::size_t /*place*/) const override { return true; }
  void place(std::size_t place, InPlaceTensor tensor) override;
  void release(std::size_t place) override;

 protected:
  Progress do_advance() override;
  void announce(std::uint64_t step) override;
  void reset() override;
  std::vector<int> missing() const override;
  bool has_made_call(int member) const override;

 private:
  // Blocks are posted and reduced one after the other.
  void copy_in(std::uint64_t index, std::byte* slot) override;
  bool reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

  void begin();

  std::shared_ptr<BucketSequencer> sequencer_;
  std::size_t bucket_;
  DType dtype_;
  std::shared_ptr<DoubleBuffer> packed_;
  StagingPipeline pipeline_;
  TwoShotBlocks blocks_;
  std::vector<Range> large_;
  std::vector<InPlaceTensor> placed_;      // of the step at hand; without `out`: it is packed
  std::vector<std::size_t> place_of_run_;  // kNoPlace for runs of packed tensors
  bool has_begun_ = false;
};

}  // namespace tnt::comm
