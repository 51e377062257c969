#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace tnt::comm {

/// What ranks tell each other apart from the data of segments.
enum class ControlKind : std::uint32_t {
  hello,     ///< who and where the sender is: numbers of `Place`, pid; text: host and job
  leaving,   ///< numbers: PeerState; text: reason
  creating,  ///< the sender creates a segment; numbers: bytes, notifications, members; text: key
  ready,     ///< its part is there; numbers: its segment id; text: key
  released,  ///< it will not write into others' parts any more; text: key
};

/// One message of fixed size. Trivially copyable: it travels as it is.
struct ControlMessage {
  ControlKind kind{};
  std::uint32_t text_bytes = 0;
  std::array<std::int64_t, 6> numbers{};
  std::array<char, 1032> letters{};

  std::string text() const {
    return {letters.data(), std::min<std::size_t>(text_bytes, letters.size())};
  }

  /// Cut off if it is too long.
  void set_text(const std::string& value) {
    text_bytes = static_cast<std::uint32_t>(value.copy(letters.data(), letters.size()));
  }
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) % 64 == 0);

}  // namespace tnt::comm
