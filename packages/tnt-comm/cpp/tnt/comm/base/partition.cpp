#include "tnt/comm/base/partition.hpp"

#include <algorithm>

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

}  // namespace tnt::comm
