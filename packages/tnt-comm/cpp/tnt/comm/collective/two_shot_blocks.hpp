#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Some elements of a vector, and where they lie in this rank's memory.
struct Run {
  Range range;                    ///< of the vector's elements
  const std::byte* in = nullptr;  ///< the first of them
  std::byte* out = nullptr;       ///< where their sums go; may be `in`
  double scale = 1;               ///< what is summed is scale * in
};

/// Allreduce of a vector in private memory, whose elements may lie in several
/// places, in blocks as large as the pair slots of a slot (see Channel).
///
/// Every rank copies into pair slots what the others will reduce (all of a block but
/// its own chunk), reduces its chunk straight out of its own memory and the
/// others' pair slots into the same places, and copies the other chunks of the
/// result from its pair slots.
///
/// Slots stay in the caches (see Channel for why it is cheap to write to
/// them), so main memory sees the vector and the result only. Results can go
/// past the caches.
///
/// Memory traffic per rank and byte of the vector: (n-1)/n copied in, n/n read
/// and n/n written by the reduction, (n-1)/n copied out.
class TwoShotBlocks {
 public:
  /// Of a vector of `count` elements. The channel is the pipeline's.
  TwoShotBlocks(const StagingPipeline& pipeline, DType dtype, ReduceOp op, std::size_t count);

  std::uint64_t num_blocks() const { return num_blocks_; }

  /// Where the elements lie, in ascending order. Elements that no run holds are
  /// not summed. Pointers and scales may be changed between two passes.
  std::vector<Run>& runs() { return runs_; }

  /// For what else the operation reduces.
  TreeReducer& reducer() { return reducer_; }

  /// Results are written past the caches.
  void stream() { is_streamed_ = true; }

  // One block, in the block `index` of the pipeline.
  void copy_in(std::uint64_t block, std::uint64_t index);
  void reduce(std::uint64_t block, std::uint64_t index);
  void copy_out(std::uint64_t block, std::uint64_t index);

 private:
  struct Extent;  // of a chunk, in one run

  Range elements_of(std::uint64_t block) const;
  template <typename Function>
  void visit(std::uint64_t block, int member, const Function& function) const;
  template <typename Function>
  void visit_others(std::uint64_t block, const Function& function) const;

  const StagingPipeline& pipeline_;
  DType dtype_;
  std::size_t stride_;
  std::size_t count_;
  std::size_t block_length_;  // elements
  std::uint64_t num_blocks_;
  std::vector<Run> runs_;
  bool is_streamed_ = false;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
