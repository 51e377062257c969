#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tnt::comm {

using Digest = std::array<std::uint8_t, 32>;

/// SHA-256 of all bytes that were added (FIPS 180-4).
class Sha256 {
 public:
  Sha256& add(std::string_view bytes);

  /// Once, at the end.
  Digest digest();

 private:
  void process(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t num_in_block_ = 0;
  std::uint64_t num_bytes_ = 0;
};

Digest sha256(std::string_view bytes);

/// HMAC-SHA-256 (RFC 2104).
Digest hmac(std::string_view key, std::string_view message);

/// In a time that does not depend on where they differ.
bool are_equal(const Digest& one, std::string_view other);

inline std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Bytes that nobody can guess. CommError if the operating system has none.
std::string random_bytes(std::size_t count);

}  // namespace tnt::comm
