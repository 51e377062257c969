#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/bucket_sequencer.hpp"

namespace tnt::comm {

/// A bucket of ranks that can read each other's memory: what starts its allreduce in every step.
class StagedBucketOperation : public BucketOperation {
 protected:
  /// `work` belongs to the subclass.
  StagedBucketOperation(std::shared_ptr<StagedStream> stream, StagedWork& work, std::string name)
      : BucketOperation(stream->context.abort_state, std::move(name)),
        pipeline_(std::move(stream)),
        work_(work) {}

  StagingPipeline& pipeline() { return pipeline_; }
  const StagingPipeline& pipeline() const { return pipeline_; }

  Progress advance_step() final;
  std::vector<int> missing() const final;

  virtual void end() { pipeline_.end(); }
  /// Members whose next act the posted step waits for before it can begin.
  virtual std::vector<int> missing_for_begin() const { return {}; }

 private:
  StagingPipeline pipeline_;
  StagedWork& work_;
};

/// OneShotAllreduce of a small bucket, which is packed into its slot of a channel of its own: of
/// depth 1, so that each slot serves every other step. Its sum is private.
class OneShotBucket final : public StagedBucketOperation {
 public:
  static ChannelLayout layout(const BucketSpec& spec);

  OneShotBucket(std::shared_ptr<StagedStream> stream, const BucketSpec& spec);

  std::byte* input(std::uint64_t step) override { return pipeline().channel().slot(step); }
  const std::byte* result(std::uint64_t) const override { return result_.data(); }

 protected:
  void announce(std::uint64_t step) override { pipeline().stream().channel.post(step); }
  bool try_begin() override;

 private:
  std::vector<std::byte> result_;
  OneShotAllreduce work_;
};

/// TwoShotAllreduce of a large bucket: it goes block by block through slots that stay
/// in the caches and that it shares with other buckets, see BucketSequencer.
///
/// So its tensors need not be in memory that others can reach. Large ones stay
/// where they are and are summed there; small ones, and those whose owner wants
/// them back at once, are packed into private memory, of which nothing is taken
/// that is not used.
class TwoShotBucket final : public StagedBucketOperation {
 public:
  /// The `bucket`-th of those that share the sequencer.
  TwoShotBucket(std::shared_ptr<BucketSequencer> sequencer, std::size_t bucket,
                const BucketSpec& spec);

  std::byte* input(std::uint64_t step) override { return packed_->data_of(packed_->open(step)); }
  const std::byte* result(std::uint64_t step) const override {
    return packed_->data_of(packed_->slot_of(step));
  }
  bool may_be_in_place(std::size_t /*place*/) const override { return true; }
  void place(std::size_t place, InPlaceTensor tensor) override;
  void release(std::size_t place) override { placed_[place] = {}; }

 protected:
  std::shared_ptr<DoubleBuffer> lendable() const override { return packed_; }
  void announce(std::uint64_t step) override;
  bool try_begin() override;
  void end() override;
  std::vector<int> missing_for_begin() const override;
  bool has_made_call(int member) const override;

 private:
  std::shared_ptr<BucketSequencer> sequencer_;
  std::size_t bucket_;
  DType dtype_;
  std::shared_ptr<DoubleBuffer> packed_;
  TwoShotAllreduce work_;
  std::vector<Range> large_;
  std::vector<InPlaceTensor> placed_;      // of the step at hand; without `out`: it is packed
  std::vector<std::size_t> place_of_run_;  // kNoPlace for runs of packed tensors
};

}  // namespace tnt::comm
