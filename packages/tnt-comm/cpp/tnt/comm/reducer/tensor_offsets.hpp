#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/reducer/plan.hpp"

namespace tnt::comm {

/// Where the tensors of a bucket lie in memory.
///
/// The plan puts them back to back, which decides what is fused. In memory
/// each one begins on a cache line of its own: threads that pack different
/// tensors do not disturb each other, and a result can be handed out where it
/// is, to libraries that want 64-byte alignment. The gaps stay zero.
struct TensorOffsets {
  std::vector<std::size_t> offsets;  ///< in elements, one per tensor of the bucket
  std::size_t num_elements = 0;      ///< of the bucket, with the gaps
};

TensorOffsets place(const Bucket& bucket, const std::vector<TensorSpec>& tensors);

}  // namespace tnt::comm
