#pragma once

#include <cstddef>
#include <vector>

namespace tnt::comm::tests {

/// The documented order of summation, one element at a time.
template <typename T, typename Combine>
T naive_tree(std::vector<T> values, Combine combine) {
  while (values.size() > 1) {
    std::size_t fold = 2;
    while (values.size() % fold != 0) ++fold;
    std::vector<T> next;
    for (std::size_t i = 0; i < values.size(); i += fold) {
      T folded = values[i];
      for (std::size_t k = 1; k < fold; ++k) folded = combine(folded, values[i + k]);
      next.push_back(folded);
    }
    values = next;
  }
  return values.front();
}

/// The order of TNT_SUM_TREE: as many neighbours as each count says, one count after the other.
template <typename T, typename Combine>
T naive_tree(std::vector<T> values, const std::vector<int>& counts, Combine combine) {
  for (const int count : counts) {
    std::vector<T> next;
    for (auto begin = values.begin(); begin != values.end(); begin += count) {
      next.push_back(naive_tree(std::vector<T>(begin, begin + count), combine));
    }
    values = next;
  }
  return values.front();
}

/// Values of one rank; spread so that the order of summation shows.
inline std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  unsigned state = 12345U + 977U * static_cast<unsigned>(rank);
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    const auto exponent = static_cast<int>((state >> 8) % 13U) - 6;
    const float fraction = static_cast<float>(state >> 9) / 4194304.0F - 1.0F;
    value = exponent < 0 ? fraction / static_cast<float>(1 << -exponent)
                         : fraction * static_cast<float>(1 << exponent);
  }
  return values;
}

/// What all ranks must get, bit by bit.
inline std::vector<float> sum_of(int size, std::size_t count) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(values_of(rank, count));
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> column;
    for (const auto& input : inputs) column.push_back(input[i]);
    result[i] = naive_tree(column, [](float a, float b) { return a + b; });
  }
  return result;
}

}  // namespace tnt::comm::tests
