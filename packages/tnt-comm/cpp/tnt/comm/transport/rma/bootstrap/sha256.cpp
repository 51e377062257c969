#include "tnt/comm/transport/rma/bootstrap/sha256.hpp"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian_word(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

}  // namespace

Sha256& Sha256::add(std::string_view bytes) {
  num_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_.size() - num_in_block_);
    std::memcpy(block_.data() + num_in_block_, bytes.data(), count);
    num_in_block_ += count;
    bytes.remove_prefix(count);
    if (num_in_block_ == block_.size()) {
      process(block_.data());
      num_in_block_ = 0;
    }
  }
  return *this;
}

Digest Sha256::digest() {
  const std::uint64_t num_bits = num_bytes_ * 8;
  std::string padding(1, '\x80');
  padding.append((119 - num_in_block_) % 64, '\0');  // so that 8 bytes of the block are left
  for (int shift = 56; shift >= 0; shift -= 8) {
    padding.push_back(static_cast<char>(num_bits >> shift));
  }
  add(padding);
  Digest result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return result;
}

void Sha256::process(const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian_word(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < added.size(); ++i) state_[i] += added[i];
}

Digest sha256(std::string_view bytes) {
  return Sha256().add(bytes).digest();
}

Digest hmac(std::string_view key, std::string_view message) {
  std::string padded(key.size() > 64 ? bytes_of(sha256(key)) : key);
  padded.resize(64, '\0');
  const auto masked = [&](char mask) {
    std::string result = padded;
    for (char& c : result) c = static_cast<char>(c ^ mask);
    return result;
  };
  const Digest inner = Sha256().add(masked('\x36')).add(message).digest();
  return Sha256().add(masked('\x5c')).add(bytes_of(inner)).digest();
}

bool are_equal(const Digest& one, std::string_view other) {
  if (other.size() != one.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference |= one[i] ^ static_cast<std::uint8_t>(other[i]);
  }
  return difference == 0;
}

std::string random_bytes(std::size_t count) {
  std::string result(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::getrandom(result.data() + done, count - done, 0);
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR) {
      throw Error(ErrorKind::comm, "no random numbers are available: ", std::strerror(errno));
    }
  }
  return result;
}

}  // namespace tnt::comm
