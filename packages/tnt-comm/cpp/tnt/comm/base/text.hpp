#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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

/// Whether a byte of UTF-8 is inside a character, and not its first.
inline bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

/// The first bytes of a UTF-8 text, `count` at most, without half a character.
inline std::string_view first_bytes(std::string_view whole, std::size_t count) {
  if (whole.size() <= count) return whole;
  while (count > 0 && is_inside_character(whole[count])) --count;
  return whole.substr(0, count);
}

/// Likewise the last bytes.
inline std::string_view last_bytes(std::string_view whole, std::size_t count) {
  if (whole.size() <= count) return whole;
  std::size_t begin = whole.size() - count;
  while (begin < whole.size() && is_inside_character(whole[begin])) ++begin;
  return whole.substr(begin);
}

/// For messages: "rank 2", "ranks 1, 2"; of many the first ten. `name_of` says what
/// stands for a rank, its number if it is empty.
std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::function<std::string(int)>& name_of = {});

}  // namespace tnt::comm
