#pragma once

#include <cstddef>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

/// Elements of a vector that one member reduces for all. Boundaries lie on
/// cache lines, so that two ranks never write to the same one.
inline Range chunk_of(std::size_t count, DType dtype, int num_members, int member) {
  return part_of(count, static_cast<std::size_t>(num_members), static_cast<std::size_t>(member),
                 kCacheLineBytes / size_of(dtype));
}

/// Allreduces up to this many bytes are done by every rank for itself: reading
/// n small inputs costs less than a second round of notifications.
inline std::size_t one_shot_limit_bytes(int num_members) {
  constexpr std::size_t kReadBudget = 128 * 1024;
  return kReadBudget / static_cast<std::size_t>(num_members);
}

}  // namespace tnt::comm
