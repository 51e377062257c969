#pragma once

#include <cstddef>

namespace tnt::comm {

/// What a core reads and writes at once; boundaries between what two ranks or threads write lie on
/// multiples of it.
inline constexpr std::size_t kCacheLineBytes = 64;

}  // namespace tnt::comm
