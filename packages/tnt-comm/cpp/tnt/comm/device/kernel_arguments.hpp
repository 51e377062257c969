#pragma once

#include <cstdint>

// What the kernels for GPUs are given, in one structure for each. Addresses are those of the GPU.

namespace tnt::comm::device {

/// The most arrays that are summed at once, and the most places that the sum is written to.
inline constexpr int kMostArrays = 64;
inline constexpr int kMostLevels = 6;  ///< of a tree of so many

/// The folds of a SumTree; behind them kNoFold.
struct Folds {
  static constexpr std::uint32_t kNoFold = 0xffffffffU;
  std::uint32_t of_level[kMostLevels + 1];
};

/// Elements before `num_single` are done one by one; behind them, what is at once read and written
/// begins at multiples of 16 bytes.
struct Extent {
  std::uint64_t count;
  std::uint64_t num_single;
};

struct SumArguments {
  std::uint64_t sources[kMostArrays];
  std::uint64_t targets[kMostArrays];
  Extent extent;
  std::uint64_t
      invalid;  ///< the NaN of an invalid operation, as the processors of this host have it
  Folds folds;
  std::uint32_t num_sources;
  std::uint32_t num_targets;
};

struct MapArguments {
  std::uint64_t to;
  std::uint64_t from;
  Extent extent;
  std::uint64_t invalid;
  std::uint64_t factor;  ///< bits of the type in which is computed
};

/// How many elements of so many bytes are read or written at once.
constexpr std::uint64_t group_size(std::uint64_t element_bytes) {
  return 16 / element_bytes;
}

}  // namespace tnt::comm::device
