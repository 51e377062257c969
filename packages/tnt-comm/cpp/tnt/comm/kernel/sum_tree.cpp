#include "tnt/comm/kernel/sum_tree.hpp"

#include <functional>
#include <numeric>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

SumTree::SumTree(int size) : SumTree(std::vector<int>{size}) {}

SumTree::SumTree(const std::vector<int>& counts)
    : size_(std::accumulate(counts.begin(), counts.end(), 1, std::multiplies<>())) {
  for (const int count : counts) {
    for (int left = count; left > 1; left /= folds_.back()) {
      folds_.push_back(static_cast<int>(smallest_prime_factor(static_cast<std::size_t>(left))));
    }
  }
}

int SumTree::num_levels_below(int part) const {
  int combined = 1;
  for (int level = 0;; ++level) {
    if (combined == part) return level;
    if (combined > part || level == static_cast<int>(folds_.size())) return -1;
    combined *= folds_[static_cast<std::size_t>(level)];
  }
}

SumTree SumTree::branch(int part) const {
  return SumTree(std::vector<int>(folds_.begin(), folds_.begin() + num_levels_below(part)));
}

SumTree SumTree::above(int part) const {
  return SumTree(std::vector<int>(folds_.begin() + num_levels_below(part), folds_.end()));
}

}  // namespace tnt::comm
