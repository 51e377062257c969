#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of small messages among ranks that can read each other's memory: every rank puts
/// its array into its slot and reduces all slots for itself.
///
/// The array is private and copied in, or has been packed in the slot (the persistent one).
/// One block, one round; n times the message is read.
class OneShotAllreduce final : public StagedWork {
 public:
  /// `in` is not looked at if the first block is posted already.
  OneShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                   const CallArrays& arrays);

  void copy_in(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

 private:
  std::size_t count_;
  std::size_t num_bytes_;
  const std::byte* in_;
  std::byte* out_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

/// Some elements of a vector, and where they lie in this rank's memory.
struct Run {
  Range range;                    ///< of the vector's elements
  const std::byte* in = nullptr;  ///< the first of them
  std::byte* out = nullptr;       ///< where their sums go; may be `in`
  double scale = 1;               ///< what is summed is scale * in
};

/// Allreduce of large messages among ranks that can read each other's memory, each rank reducing a
/// part for all.
///
/// *Private memory*, where the elements may lie in several places: in blocks as large as the pair
/// slots of a slot (see Channel). Every rank copies into pair slots what the others will reduce
/// (all of a block but its own chunk), reduces its chunk straight out of its own memory and the
/// others' pair slots into the same places, and copies the other chunks of the
/// result from its pair slots. Slots stay in the caches (see Channel for why it is cheap to write
/// to them), so main memory sees the vector and the result only. Results can go past the caches.
///
/// Blocks: ceil(bytes / (n pair slots)), two rounds each. Memory traffic per rank and byte of the
/// vector: (n-1)/n copied in, n/n read and n/n written by the reduction, (n-1)/n copied out.
///
/// *Arrays in shared regions*, if those of all members are: every rank reduces
/// one chunk of the whole message out of all arrays and writes it to all
/// arrays. One block; n/n read and n/n written, nothing copied.
///
/// Which of the two it is, all ranks see from what all say at the first block,
/// where a rank with shared arrays posts an empty slot. If there are some
/// with private arrays as well, the first block counts for nothing, and what it
/// should have brought comes once more as the last one.
class TwoShotAllreduce final : public StagedWork {
 public:
  TwoShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                   const CallArrays& arrays);
  /// The persistent one, of private memory that runs() say.
  TwoShotAllreduce(const StagingPipeline& pipeline, DType dtype, ReduceOp op, std::size_t count);

  /// Where the elements lie, in ascending order. Elements that no run holds are
  /// not summed. Pointers and scales may be changed between two passes.
  std::vector<Run>& runs() { return runs_; }

  void on_match() override;
  void copy_in(std::uint64_t index) override;
  bool reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

 private:
  struct Extent;  // of a chunk, in one run

  struct Arrays {  // of one member, in a shared region
    const std::byte* in;
    std::byte* out;
    std::shared_ptr<Segment> in_segment;  // whoever drops a region after an error
    std::shared_ptr<Segment> out_segment;
  };

  bool is_void(std::uint64_t index) const { return is_mixed_ && index == 0; }
  bool reduce_shared();  // true when this rank's chunk is done
  Arrays arrays_of(int member) const;

  Range elements_of(std::uint64_t index) const;
  template <typename Function>
  void visit(std::uint64_t index, int member, const Function& function) const;
  template <typename Function>
  void visit_others(std::uint64_t index, const Function& function) const;

  DType dtype_;
  std::size_t stride_;
  std::size_t count_;
  std::size_t block_length_;  // elements
  std::uint64_t num_copied_blocks_;
  std::vector<Run> runs_;
  bool is_streamed_ = false;  // results are written past the caches
  bool is_mixed_ = false;
  std::vector<Arrays> shared_;  // by member, if all are
  std::size_t num_reduced_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
