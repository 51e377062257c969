#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

/// count * size, where the product of several such numbers, and what is added to
/// it for alignment, must still be a size. UsageError, about `what`, if it is more
/// than any memory holds.
inline std::size_t bytes_in_memory(std::size_t count, std::size_t size, std::string_view what) {
  constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() / 4096;
  if (size == 0 || count <= kMostBytes / size) return count * size;
  throw UsageError(
      text(what, " has ", count, " elements of ", size, " bytes: more than any memory holds."));
}

}  // namespace tnt::comm
