#include "tnt/comm/base/partition.hpp"

#include <algorithm>
#include <limits>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

Range part_of(std::size_t count, std::size_t parts, std::size_t index, std::size_t granule) {
  const std::size_t granules = (count + granule - 1) / granule;
  const std::size_t base = granules / parts;
  const std::size_t extra = granules % parts;
  const std::size_t begin = index * base + std::min(index, extra);
  const std::size_t end = begin + base + (index < extra ? 1 : 0);
  return {std::min(begin * granule, count), std::min(end * granule, count)};
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
  throw UsageError(
      text(what, " has ", count, " elements of ", size, " bytes: more than any memory holds."));
}

}  // namespace tnt::comm
