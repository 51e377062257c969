#pragma once

#include <cstddef>
#include <string_view>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// Half-open range of elements.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Part `index` of `count` elements cut into `parts`, in units of `granule`
/// elements: sizes differ by at most one granule, the first parts are the
/// larger ones. With granule 1 this is the rule of numpy.array_split.
Range part_of(std::size_t count, std::size_t parts, std::size_t index, std::size_t granule = 1);

/// Smallest prime factor of n >= 2.
std::size_t smallest_prime_factor(std::size_t n);

/// `value` rounded up to a multiple of `unit`.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// What a core reads and writes at once; boundaries between what two ranks or threads write lie on
/// multiples of it.
inline constexpr std::size_t kCacheLineBytes = 64;

/// count * size, where the product of several such numbers, and what is added to
/// it for alignment, must still be a size. UsageError, about `what`, if it is more
/// than any memory holds.
TNT_COMM_EXPORT std::size_t bytes_in_memory(std::size_t count, std::size_t size,
                                            std::string_view what);

}  // namespace tnt::comm
