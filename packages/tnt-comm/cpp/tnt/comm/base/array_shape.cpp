#include "tnt/comm/base/array_shape.hpp"

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

// The highest bits hold the number of axes, whose lengths share the others, or kIsFingerprint.
constexpr unsigned kLengthBits = 60;
constexpr std::uint64_t kLengthsMask = (1ULL << kLengthBits) - 1;
constexpr std::uint64_t kMostAxes = 6;
constexpr std::uint64_t kIsFingerprint = kMostAxes + 1;

unsigned bits_of_axis(std::uint64_t num_axes) {
  return kLengthBits / static_cast<unsigned>(num_axes);
}

std::uint64_t fingerprint_of(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  std::uint64_t fingerprint = 14695981039346656037ULL;  // FNV-1a, as that of descriptors
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    fingerprint = (fingerprint ^ static_cast<std::uint64_t>(lengths[axis])) * 1099511628211ULL;
    fingerprint ^= fingerprint >> 32;
  }
  return kIsFingerprint << kLengthBits | (fingerprint & kLengthsMask);
}

}  // namespace

std::uint64_t pack_shape(const std::ptrdiff_t* lengths, std::size_t num_axes) {
  if (num_axes < 2) return 0;
  if (num_axes > kMostAxes) return fingerprint_of(lengths, num_axes);
  const unsigned num_bits = bits_of_axis(num_axes);
  std::uint64_t packed = num_axes;
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    const auto length = static_cast<std::uint64_t>(lengths[axis]);
    if (length >> num_bits != 0) return fingerprint_of(lengths, num_axes);
    packed = packed << num_bits | length;
  }
  return packed;
}

std::string describe_shape(std::uint64_t packed) {
  if (packed == 0) return "";
  const std::uint64_t num_axes = packed >> kLengthBits;
  // What another rank sends may be any number.
  if (num_axes < 2 || num_axes > kMostAxes) return text(" of shape id ", packed & 0xffffU);
  const unsigned num_bits = bits_of_axis(num_axes);
  std::string lengths;
  for (auto axis = static_cast<unsigned>(num_axes); axis > 0; --axis) {
    const std::uint64_t length = packed >> (axis - 1) * num_bits & ((1ULL << num_bits) - 1);
    lengths += text(lengths.empty() ? "" : ", ", length);
  }
  return text(" of shape (", lengths, ")");
}

}  // namespace tnt::comm
