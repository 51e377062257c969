#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// Element types that can be reduced. The numbers travel between ranks.
enum class DType : std::uint8_t {
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,
};
inline constexpr std::size_t kNumDTypes = 10;

/// How two elements become one. `land` and `lor` act on the bits of integers,
/// which is the logical operation for bool.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, land, lor };
inline constexpr std::size_t kNumReduceOps = 6;

TNT_COMM_EXPORT std::size_t size_of(DType dtype);
bool is_floating(DType dtype);

/// Whether it is a float of 16 bits.
constexpr bool is_half(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

/// In what elements are added up: partial sums of 16-bit floats are float32.
constexpr DType accumulator_of(DType dtype) {
  return is_half(dtype) ? DType::float32 : dtype;
}

TNT_COMM_EXPORT std::string_view name_of(DType dtype);
std::string_view name_of(ReduceOp op);

/// numpy's name of the type, for example "float32" or "bool".
/// Throws UsageError for any other name, listing the known ones.
TNT_COMM_EXPORT DType parse_dtype(std::string_view name);

/// One of "sum", "prod", "min", "max", "and", "or"; UsageError otherwise.
TNT_COMM_EXPORT ReduceOp parse_reduce_op(std::string_view name);

/// UsageError unless `op` is defined for `dtype`: sum and prod are not for
/// bool, `and` and `or` are only for bool and integers.
TNT_COMM_EXPORT void require_supported(DType dtype, ReduceOp op);

}  // namespace tnt::comm
