#include "tnt/comm/base/array.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace tnt::comm {
namespace {

constexpr std::array<std::string_view, kNumDTypes> kDTypeNames = {
    "float16", "bfloat16", "float32", "float64", "int8",
    "int16",   "int32",    "int64",   "uint8",   "bool"};
constexpr std::array<std::size_t, kNumDTypes> kDTypeSizes = {2, 2, 4, 8, 1, 2, 4, 8, 1, 1};
constexpr std::array<std::string_view, kNumReduceOps> kOpNames = {"sum", "prod", "min",
                                                                  "max", "and",  "or"};

// Numbers that other ranks send may be none of ours.
template <typename Names>
std::string_view name_at(const Names& names, std::size_t index) {
  return index < names.size() ? names[index] : "unknown";
}

template <typename Names>
std::size_t index_in(std::string_view name, const Names& names, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw UsageError(
      "`", what, "` must be one of ",
      listed(names.size(), names.size(), [&](std::size_t i) { return std::string(names[i]); }),
      ". Received: ", what, "='", name, "'.");
}

// The highest bits hold the number of axes, whose lengths share the others, or kIsFingerprint.
constexpr unsigned kLengthBits = 60;
constexpr std::uint64_t kLengthsMask = (1ULL << kLengthBits) - 1;
constexpr std::uint64_t kMostAxes = 6;
constexpr std::uint64_t kIsFingerprint = kMostAxes + 1;
constexpr std::uint64_t kIsScalar = (kMostAxes + 2) << kLengthBits;

unsigned bits_of_axis(std::uint64_t num_axes) {
  return kLengthBits / static_cast<unsigned>(num_axes);
}

std::uint64_t fingerprint_of(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  std::uint64_t fingerprint = kEmptyFingerprint;
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    fingerprint = with_word(fingerprint, static_cast<std::uint64_t>(lengths[axis]));
  }
  return kIsFingerprint << kLengthBits | (fingerprint & kLengthsMask);
}

std::uint64_t pack_lengths(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  if (num_axes > kMostAxes) return fingerprint_of(lengths, num_axes);
  const unsigned num_bits = bits_of_axis(num_axes);
  std::uint64_t packed = num_axes;
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    const auto length = static_cast<std::uint64_t>(lengths[axis]);
    if (length >> num_bits != 0) return fingerprint_of(lengths, num_axes);
    packed = packed << num_bits | length;
  }
  return packed;
}

}  // namespace

std::size_t size_of(DType dtype) {
  return kDTypeSizes[index_of(dtype)];
}

std::string_view name_of(DType dtype) {
  return name_at(kDTypeNames, index_of(dtype));
}

std::string_view name_of(ReduceOp op) {
  return name_at(kOpNames, index_of(op));
}

DType parse_dtype(std::string_view name) {
  return static_cast<DType>(index_in(name, kDTypeNames, "dtype"));
}

ReduceOp parse_reduce_op(std::string_view name) {
  return static_cast<ReduceOp>(index_in(name, kOpNames, "op"));
}

void require_supported(DType dtype, ReduceOp op) {
  const bool logical = op == ReduceOp::land || op == ReduceOp::lor;
  const bool arithmetic = op == ReduceOp::sum || op == ReduceOp::prod;
  if ((logical && is_floating(dtype)) || (arithmetic && dtype == DType::boolean)) {
    throw UsageError("Operation '", name_of(op), "' is not defined for dtype ", name_of(dtype),
                     ": sum and prod need numbers, and/or need bool or integers.");
  }
}

std::uint64_t pack_shape(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  return num_axes < 2 ? 0 : pack_lengths(lengths, num_axes);
}

std::uint64_t pack_row_shape(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  if (num_axes == 0) return kIsScalar;
  return num_axes == 1 ? 0 : pack_lengths(lengths + 1, num_axes - 1);
}

std::string describe_shape(std::uint64_t packed) {
  if (packed == 0) return "";
  if (packed == kIsScalar) return " of shape ()";
  const std::uint64_t num_axes = packed >> kLengthBits;
  // What another rank sends may be any number.
  if (num_axes == 0 || num_axes > kMostAxes) return text(" of shape id ", packed & 0xffffU);
  const unsigned num_bits = bits_of_axis(num_axes);
  return text(" of shape (",
              listed(num_axes, num_axes,
                     [&](std::size_t axis) {
                       return std::to_string(packed >> (num_axes - 1 - axis) * num_bits &
                                             ((1ULL << num_bits) - 1));
                     }),
              ")");
}

Range part_of(std::size_t count, std::size_t parts, std::size_t index, std::size_t granule) {
  const std::size_t granules = (count + granule - 1) / granule;
  const std::size_t base = granules / parts;
  const std::size_t extra = granules % parts;
  const std::size_t begin = index * base + std::min(index, extra);
  const std::size_t end = begin + base + (index < extra ? 1 : 0);
  return {std::min(begin * granule, count), std::min(end * granule, count)};
}

Range block_of(std::size_t index, std::size_t length, std::size_t count) {
  const std::size_t begin = std::min(index * length, count);
  return {begin, std::min(begin + length, count)};
}

std::size_t smallest_prime_factor(std::size_t n) {
  for (std::size_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

std::size_t bytes_in_memory(std::size_t count, std::size_t size, std::string_view what) {
  constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() / 4096;
  if (size == 0 || count <= kMostBytes / size) return count * size;
  throw UsageError(what, " has ", count, " elements of ", size,
                   " bytes: more than any memory holds.");
}

}  // namespace tnt::comm
