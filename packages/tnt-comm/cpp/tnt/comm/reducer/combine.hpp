#pragma once

#include <cstddef>
#include <span>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

/// out = the arrays, each of `count` elements, in the order in which as many ranks are combined.
/// Local. `out` may be one of them. UsageError if `op` is not for `dtype`.
TNT_COMM_EXPORT void combine(std::span<const std::byte* const> arrays, void* out, std::size_t count,
                             DType dtype, ReduceOp op);

}  // namespace tnt::comm
