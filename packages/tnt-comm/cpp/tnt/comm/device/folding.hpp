#pragma once

#include "tnt/comm/device/arithmetic.hpp"
#include "tnt/comm/device/kernel_arguments.hpp"

// Sums in the order of a SumTree. Compiled as CUDA, and as C++ by tests.

namespace tnt::comm::device {

/// Whatever NaN comes of it.
template <typename Wide>
struct PlainAddition {
  TNT_HOST_DEVICE Wide operator()(Wide a, Wide b) const {
    return bits_of<Wide>(float_of(a) + float_of(b));
  }
};

template <typename Wide>
struct CarefulAddition {
  Wide invalid;
  TNT_HOST_DEVICE Wide operator()(Wide a, Wide b) const { return add(a, b, invalid); }
};

/// Adds arrays of `kNumElements` numbers as they come, in the order of a tree: each level holds the
/// sum of what it has of its current fold.
template <typename Wide, int kNumElements>
class Folding {
 public:
  TNT_HOST_DEVICE explicit Folding(const Folds& folds) : folds_(folds) {}

  /// Behind the last array, `values` is the sum. `plus` has what comes first on its left.
  template <typename Plus>
  TNT_HOST_DEVICE void take(Wide (&values)[kNumElements], Plus plus) {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int level = 0; level <= kMostLevels; ++level) {
      const bool is_first = counts_[level] == 0;
      for (int k = 0; k < kNumElements; ++k) {
        if (!is_first) values[k] = plus(sums_[level][k], values[k]);
        sums_[level][k] = values[k];
      }
      if (++counts_[level] < folds_.of_level[level]) return;
      counts_[level] = 0;
    }
  }

 private:
  const Folds& folds_;
  std::uint32_t counts_[kMostLevels + 1] = {};
  Wide sums_[kMostLevels + 1][kNumElements];
};

/// The sum of `kCount` arrays, a power of two, which are neighbours in pairs; it replaces the
/// first.
template <int kCount, typename Wide, int kNumElements>
TNT_HOST_DEVICE inline void add_pairs(Wide (&values)[kCount][kNumElements]) {
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int distance = 1; distance < kCount; distance *= 2) {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int i = 0; i < kCount; i += 2 * distance) {
      for (int k = 0; k < kNumElements; ++k) {
        values[i][k] = PlainAddition<Wide>()(values[i][k], values[i + distance][k]);
      }
    }
  }
}

}  // namespace tnt::comm::device
