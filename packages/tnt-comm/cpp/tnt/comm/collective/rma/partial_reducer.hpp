#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Reduces a branch of the tree to a partial result that can be combined
/// further, and turns the end result into the elements' own type. For 16-bit
/// floats partial results are float32, so that they are rounded once; for all
/// others they are what they are (the partial type is accumulator_of() the type).
class PartialReducer {
 public:
  PartialReducer(DType dtype, ReduceOp op, std::size_t max_sources);

  /// dst (of the partial type) = tree over the sources (of the type).
  void reduce(std::byte* dst, const std::byte* const* sources, std::size_t num_sources,
              std::size_t count);

  /// dst (of the type) = src (of the partial type). No overlap.
  void round(std::byte* dst, const std::byte* src, std::size_t count) const;

 private:
  bool is_rounded() const { return accumulator_of(dtype_) != dtype_; }

  DType dtype_;
  TreeReducer reducer_;
  std::vector<std::vector<float>> widened_;  // one block of each source
  std::vector<const std::byte*> operands_;
};

}  // namespace tnt::comm
