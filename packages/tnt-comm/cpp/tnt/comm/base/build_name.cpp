#include "tnt/comm/base/build_name.hpp"

#include <bit>

namespace tnt::comm {

std::string build_name() {
  const bool is_little = std::endian::native == std::endian::little;
  return std::string("tnt-comm " TNT_COMM_VERSION ", ") + (is_little ? "little" : "big") +
         "-endian";
}

}  // namespace tnt::comm
