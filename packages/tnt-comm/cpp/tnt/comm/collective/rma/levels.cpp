#include "tnt/comm/collective/rma/levels.hpp"

#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

int smallest_factor(int n) {
  return static_cast<int>(smallest_prime_factor(static_cast<std::size_t>(n)));
}

}  // namespace

std::vector<Level> levels_of(int size, Radices radices) {
  std::vector<Level> levels;
  int stride = 1;
  while (stride < size) {
    const int left = size / stride;
    const int radix = radices == Radices::one ? left : smallest_factor(left);
    levels.push_back({radix, stride});
    stride *= radix;
  }
  return levels;
}

bool is_branch_size(int part, int size) {
  int branch = 1;
  while (branch < part && branch < size) branch *= smallest_factor(size / branch);
  return branch == part;
}

}  // namespace tnt::comm
