#pragma once

#include <string>

namespace tnt::comm {

/// Version of this library, such as "1.2.0".
const char* version();

/// Which build of this library this is, such as "tnt-comm 1.2.0, little-endian". Ranks
/// tell each other before anything else: what they send later is laid out as in one
/// build.
std::string build_name();

}  // namespace tnt::comm
