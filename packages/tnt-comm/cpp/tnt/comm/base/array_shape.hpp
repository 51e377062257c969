#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// The shape of an array as a number that ranks compare beside its count: 0 for
/// fewer than two axes, of which the count says all. It holds the lengths of the
/// axes if they are few and small enough, else a fingerprint of them.
TNT_COMM_EXPORT std::uint64_t pack_shape(const std::ptrdiff_t* lengths, std::size_t num_axes);

/// For messages: " of shape (3, 2)", or "" for 0. Takes any number.
std::string describe_shape(std::uint64_t packed);

}  // namespace tnt::comm
