#pragma once

#include <sstream>
#include <string>

namespace tnt::comm {

/// Joins values into one string, as they would be streamed.
///
/// g++ 12 has no std::format; messages are built on error paths only, so the
/// cost of a stream does not matter.
template <typename... Values>
std::string text(const Values&... values) {
  std::ostringstream stream;
  (stream << ... << values);
  return stream.str();
}

}  // namespace tnt::comm
