#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/base/error.hpp"

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

/// How two elements become one. `land` and `lor` act on the bits of integers; so bool is logical.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, land, lor };
inline constexpr std::size_t kNumReduceOps = 6;

template <typename Enum>
constexpr std::size_t index_of(Enum value) {
  return static_cast<std::size_t>(value);
}

TNT_COMM_EXPORT std::size_t size_of(DType dtype);

constexpr bool is_floating(DType dtype) {
  return dtype <= DType::float64;
}

constexpr bool is_half(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

/// In what elements are added up: partial sums of 16-bit floats are float32.
constexpr DType accumulator_of(DType dtype) {
  return is_half(dtype) ? DType::float32 : dtype;
}

/// numpy's name of the type, for example "float32" or "bool".
TNT_COMM_EXPORT std::string_view name_of(DType dtype);

/// "sum", "prod", "min", "max", "and" or "or".
TNT_COMM_EXPORT std::string_view name_of(ReduceOp op);

/// The type or operation of a name. UsageError for any other, listing the known ones.
TNT_COMM_EXPORT DType parse_dtype(std::string_view name);
TNT_COMM_EXPORT ReduceOp parse_reduce_op(std::string_view name);

/// UsageError unless `op` is defined for `dtype`: sum and prod are not for
/// bool, `and` and `or` are only for bool and integers.
TNT_COMM_EXPORT void require_supported(DType dtype, ReduceOp op);

/// The shape of an array as a number that ranks compare beside its count: 0 for
/// fewer than two axes, of which the count says all. It holds the lengths of the
/// axes if they are few and small enough, else a fingerprint of them.
TNT_COMM_EXPORT std::uint64_t pack_shape(const std::ptrdiff_t* lengths, std::size_t num_axes);

/// The same of what is gathered, where the first axis does not count: 0 for one axis.
TNT_COMM_EXPORT std::uint64_t pack_row_shape(const std::ptrdiff_t* lengths, std::size_t num_axes);

/// For messages: " of shape (3, 2)", or "" for 0. Takes any number.
std::string describe_shape(std::uint64_t packed);

/// What a container holds of a rank or member, or whatever else counts from 0.
template <typename Container>
auto& at(Container& of_each, int index) {
  return of_each[static_cast<std::size_t>(index)];
}

/// The ranks from 0 to `size` - 1, or members, for which this holds.
template <typename Condition>
std::vector<int> ranks_where(int size, const Condition& condition) {
  std::vector<int> result;
  for (int rank = 0; rank < size; ++rank) {
    if (condition(rank)) result.push_back(rank);
  }
  return result;
}

/// Fingerprints of bytes or words (FNV-1a): equal for equal ones, for others by an unlikely
/// accident.
inline constexpr std::uint64_t kEmptyFingerprint = 14695981039346656037ULL;
constexpr std::uint64_t with_byte(std::uint64_t fingerprint, std::uint64_t byte) {
  return (fingerprint ^ byte) * 1099511628211ULL;
}
constexpr std::uint64_t with_word(std::uint64_t fingerprint, std::uint64_t word) {
  const std::uint64_t product = with_byte(fingerprint, word);
  return product ^ product >> 32;  // or the high bits of a word would be lost
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Part `index` of `count` elements cut into `parts`, in units of `granule`
/// elements: sizes differ by at most one granule, the first parts are the
/// larger ones. With granule 1 this is the rule of numpy.array_split.
Range part_of(std::size_t count, std::size_t parts, std::size_t index, std::size_t granule = 1);

/// Block `index` of `count` elements, or bytes, that are cut into blocks of this length; the last
/// one may be shorter, and those behind it are empty.
Range block_of(std::size_t index, std::size_t length, std::size_t count);

std::size_t smallest_prime_factor(std::size_t n);

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// What a core reads and writes at once; boundaries between what two ranks or threads write lie on
/// multiples of it.
inline constexpr std::size_t kCacheLineBytes = 64;

/// count * size, where the product of several such numbers, and what is added to it for alignment,
/// must still be a size. UsageError, about `what`, if it is more than any memory holds.
TNT_COMM_EXPORT std::size_t bytes_in_memory(std::size_t count, std::size_t size,
                                            std::string_view what);

}  // namespace tnt::comm
