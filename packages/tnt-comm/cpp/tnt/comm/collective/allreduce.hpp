#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/collective/staged_operation.hpp"
#include "tnt/comm/collective/two_shot_blocks.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of large messages, each rank reducing a part for all.
///
/// *Private arrays* go through the slots, see TwoShotBlocks. Blocks:
/// ceil(bytes / (n pair slots)), two rounds each.
///
/// *Arrays in shared regions*, if those of all members are: every rank reduces
/// one chunk of the whole message out of all arrays and writes it to all
/// arrays. One block; n/n read and n/n written, nothing copied.
///
/// Which of the two it is, all ranks see from what all say at the first block,
/// where a rank with shared arrays posts an empty slot. If there are some
/// with private arrays as well, the first block counts for nothing, and what it
/// should have brought comes once more as the last one.
class TwoShotAllreduce final : public StagedOperation {
 public:
  /// `out` may be `in`; both stay untouched by others until completion, unless
  /// they lie in a shared region.
  TwoShotAllreduce(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                   const Descriptor& descriptor, const void* in, void* out,
                   std::shared_ptr<const SharedRegions> regions);

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index, std::byte* slot) override;
  bool reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

 private:
  struct Arrays {  // of one member, in a shared region
    const std::byte* in;
    std::byte* out;
    std::shared_ptr<Segment> in_segment;  // whoever drops a region after an error
    std::shared_ptr<Segment> out_segment;
  };

  bool is_void(std::uint64_t index) const { return is_mixed_ && index == 0; }
  std::uint64_t block(std::uint64_t index) const { return index % blocks_.num_blocks(); }
  bool reduce_shared();  // true when this rank's chunk is done
  Arrays arrays_of(int member) const;

  std::shared_ptr<const SharedRegions> regions_;
  TwoShotBlocks blocks_;
  bool is_mixed_ = false;
  std::vector<Arrays> arrays_;  // by member, if all are shared
  std::size_t num_reduced_ = 0;
  std::vector<const std::byte*> sources_;
};

/// Allreduce of small messages: every rank copies its array into its slot
/// and reduces all slots for itself.
///
/// One block, one round; n times the message is read.
class OneShotAllreduce final : public StagedOperation {
 public:
  OneShotAllreduce(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                   const Descriptor& descriptor, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* slot) override;
  void copy_out(std::uint64_t index) override;

 private:
  const std::byte* in_;
  std::byte* out_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
