#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tnt/comm/base/recycled_memory.hpp"

namespace tnt::comm {

/// What an allgather leaves behind.
struct Gathered {
  RecycledMemory blocks;          ///< of all members in their order, back to back
  std::vector<std::size_t> ends;  ///< where each ends, in bytes

  std::size_t begin_of(std::size_t member) const { return member == 0 ? 0 : ends[member - 1]; }
};

/// A block to be gathered: the caller's memory, or the operation's own copy.
class GatherInput {
 public:
  explicit GatherInput(const void* block) : block_(static_cast<const std::byte*>(block)) {}
  explicit GatherInput(std::vector<std::byte> block)
      : owned_(std::move(block)), block_(owned_.data()) {}
  // A moved vector keeps its memory, so the pointer stays good.
  GatherInput(GatherInput&&) = default;

  const std::byte* data() const { return block_; }

 private:
  std::vector<std::byte> owned_;
  const std::byte* block_;
};

}  // namespace tnt::comm
