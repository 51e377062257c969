// The elements of TensorFlow's string tensors.
//
// TensorFlow's C API has functions for them, but in headers only, or in a library that is not
// always loaded so that others find its names. So their layout in memory is declared here, as
// programs that were compiled with those headers have it. A test compares it with the headers of
// the installed TensorFlow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace tnt::keras {

/// One string, on a little-endian machine. The two lowest bits of its first byte say which of the
/// layouts it has; where a size is, it is stored times four.
union TensorFlowString {
  enum Layout { kSmall = 0, kLarge = 1, kOffset = 2, kView = 3 };
  static constexpr size_t kMaxSmallSize = 22;

  struct Small {
    uint8_t size;
    char text[kMaxSmallSize + 1];  // ends with a zero byte, as that of Large
  } small;
  struct Large {
    size_t size;
    size_t capacity;  // without the zero byte
    char* text;       // from malloc()
  } large;
  struct Offset {
    uint32_t size;
    uint32_t offset;  // from here to the text
    uint32_t count;
  } offset;
  struct View {
    size_t size;
    const char* text;  // of somebody else
    void* owner;
  } view;
};
static_assert(sizeof(TensorFlowString) == 24);

/// The bytes of a string.
inline std::string_view text_of(const TensorFlowString& string) {
  switch (string.small.size & 3) {
    case TensorFlowString::kSmall:
      return {string.small.text, static_cast<size_t>(string.small.size >> 2)};
    case TensorFlowString::kLarge:
      return {string.large.text, string.large.size >> 2};
    case TensorFlowString::kOffset:
      return {reinterpret_cast<const char*>(&string) + string.offset.offset,
              static_cast<size_t>(string.offset.size >> 2)};
    default:
      return {string.view.text, string.view.size >> 2};
  }
}

/// Gives a string, which is empty as in a tensor that was just allocated, its bytes. TensorFlow
/// frees them.
inline void fill(TensorFlowString& string, std::string_view text) {
  char* target = string.small.text;
  if (text.size() <= TensorFlowString::kMaxSmallSize) {
    string.small.size = static_cast<uint8_t>(text.size() << 2 | TensorFlowString::kSmall);
  } else {
    target = static_cast<char*>(std::malloc(text.size() + 1));
    if (target == nullptr) throw std::bad_alloc();
    string.large = {text.size() << 2 | TensorFlowString::kLarge, text.size(), target};
  }
  std::memcpy(target, text.data(), text.size());
  target[text.size()] = '\0';
}

}  // namespace tnt::keras
