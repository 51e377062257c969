#include "tnt/comm/base/build_name.hpp"

#include <bit>

namespace tnt::comm {

const char* version() {
  return TNT_COMM_VERSION;
}

std::string build_name() {
  const bool is_little = std::endian::native == std::endian::little;
  return std::string("tnt-comm ") + version() + ", " + (is_little ? "little" : "big") + "-endian";
}

}  // namespace tnt::comm
