#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "naive_tree.hpp"
#include "tnt/comm/base/array.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm::tests {

/// Calls function(T{}) with the C++ type of the elements; 16-bit floats as
/// the float32 they are computed in.
template <typename Function>
auto with_type_of(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::float64:
      return function(double{});
    case DType::int8:
      return function(std::int8_t{});
    case DType::int16:
      return function(std::int16_t{});
    case DType::int32:
      return function(std::int32_t{});
    case DType::int64:
      return function(std::int64_t{});
    case DType::uint8:
    case DType::boolean:
      return function(std::uint8_t{});
    default:
      return function(float{});
  }
}

/// One operation on two elements, written once more and in the plainest way.
template <typename T>
T combine_plainly(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::uint64_t;
    if (op == ReduceOp::sum) return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    if (op == ReduceOp::prod) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    if (op == ReduceOp::land) return static_cast<T>(a & b);
    if (op == ReduceOp::lor) return static_cast<T>(a | b);
  } else {
    if (op == ReduceOp::sum) return a + b;
    if (op == ReduceOp::prod) return a * b;
  }
  return op == ReduceOp::min ? std::min(a, b) : std::max(a, b);
}

/// What a rank contributes, as bytes.
inline std::vector<std::byte> input_of(DType dtype, int rank, std::size_t count) {
  const std::vector<float> values = values_of(rank, count);
  std::vector<std::byte> bytes(count * size_of(dtype));
  if (is_half(dtype)) {
    kernels().narrow[static_cast<std::size_t>(dtype)](
        reinterpret_cast<std::uint16_t*>(bytes.data()), values.data(), count);
    return bytes;
  }
  with_type_of(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < count; ++i) {
      T value = static_cast<T>(values[i]);
      if constexpr (std::is_integral_v<T>) value = static_cast<T>(static_cast<int>(values[i] * 3));
      if (dtype == DType::boolean) value = values[i] > 0 ? 1 : 0;
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

namespace detail {

template <typename T>
std::vector<T> elements_of(DType dtype, const std::vector<std::byte>& bytes) {
  const std::size_t count = bytes.size() / size_of(dtype);
  std::vector<T> elements(count);
  if constexpr (std::is_same_v<T, float>) {
    if (is_half(dtype)) {
      kernels().widen[static_cast<std::size_t>(dtype)](
          elements.data(), reinterpret_cast<const std::uint16_t*>(bytes.data()), count);
      return elements;
    }
  }
  if (count > 0) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

}  // namespace detail

/// What all ranks must get, bit by bit: the documented tree, element by element.
inline std::vector<std::byte> reduction_of(DType dtype, ReduceOp op, int size, std::size_t count,
                                           const std::vector<int>& sum_tree = {}) {
  const std::vector<int> tree = sum_tree.empty() ? std::vector<int>{size} : sum_tree;
  std::vector<std::byte> result(count * size_of(dtype));
  with_type_of(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < size; ++rank) {
      inputs.push_back(detail::elements_of<T>(dtype, input_of(dtype, rank, count)));
    }
    std::vector<T> reduced(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<T> column;
      for (const auto& input : inputs) column.push_back(input[i]);
      reduced[i] = naive_tree(column, tree, [op](T a, T b) { return combine_plainly(op, a, b); });
    }
    if constexpr (std::is_same_v<T, float>) {
      if (is_half(dtype)) {
        kernels().narrow[static_cast<std::size_t>(dtype)](
            reinterpret_cast<std::uint16_t*>(result.data()), reduced.data(), count);
        return;
      }
    }
    if (count > 0) std::memcpy(result.data(), reduced.data(), result.size());
  });
  return result;
}

}  // namespace tnt::comm::tests
