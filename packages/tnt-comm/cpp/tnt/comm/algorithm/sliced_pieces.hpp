#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tnt/comm/algorithm/window_pipeline.hpp"
#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"
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
/// places, in pieces as large as the rooms of a window (see Channel).
///
/// Every rank copies into rooms what the others will reduce (all of a piece but
/// its own slice), reduces its slice straight out of its own memory and the
/// others' rooms into the same places, and copies the other slices of the
/// result from its rooms.
///
/// Windows stay in the caches (see Channel for why it is cheap to write to
/// them), so main memory sees the vector and the result only. Results can go
/// past the caches.
///
/// Memory traffic per rank and byte of the vector: (n-1)/n copied in, n/n read
/// and n/n written by the reduction, (n-1)/n copied out.
class SlicedPieces {
 public:
  /// Of a vector of `count` elements. The channel is the pipeline's.
  SlicedPieces(const WindowPipeline& pipeline, DType dtype, ReduceOp op, std::size_t count);

  std::uint64_t num_pieces() const { return num_pieces_; }

  /// Where the elements lie, in ascending order. Elements that no run holds are
  /// not summed. Pointers and scales may be changed between two passes.
  std::vector<Run>& runs() { return runs_; }

  /// For what else the operation reduces.
  TreeReducer& reducer() { return reducer_; }

  /// Results are written past the caches.
  void stream() { is_streamed_ = true; }

  // One piece, in the step `index` of the pipeline.
  void copy_in(std::uint64_t piece, std::uint64_t index);
  void reduce(std::uint64_t piece, std::uint64_t index);
  void copy_out(std::uint64_t piece, std::uint64_t index);

 private:
  struct Stretch;  // of a slice, in one run

  Range elements_of(std::uint64_t piece) const;
  template <typename Function>
  void visit(std::uint64_t piece, int member, const Function& function) const;
  template <typename Function>
  void visit_others(std::uint64_t piece, const Function& function) const;

  const WindowPipeline& pipeline_;
  DType dtype_;
  std::size_t stride_;
  std::size_t count_;
  std::size_t piece_length_;  // elements
  std::uint64_t num_pieces_;
  std::vector<Run> runs_;
  bool is_streamed_ = false;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
