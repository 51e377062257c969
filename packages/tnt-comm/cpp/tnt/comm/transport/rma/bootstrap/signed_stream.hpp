#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tnt/comm/transport/rma/bootstrap/sha256.hpp"

namespace tnt::comm {

/// Messages over a connected socket that does not block, each with its length and a signature:
/// the HMAC, under a key of the connection, of the direction, its number and the digest of its
/// text.
class SignedStream {
 public:
  enum class End : char { hub = 'h', member = 'm' };

  SignedStream(int descriptor, End own) : descriptor_(descriptor), own_(own) {}

  /// From now on messages are signed. Before, there are only as many bytes as both ends expect.
  void set_key(std::string key) { key_ = std::move(key); }

  /// Appends bytes that are no message.
  void send_raw(std::string_view bytes) { outgoing_.append(bytes); }

  /// Appends a message. `digest`: of its text.
  void send(const std::string& text, std::string_view digest);
  void send(const std::string& text);

  /// Sends and receives what is possible now. False if the connection has ended.
  bool advance();
  bool has_output() const { return num_written_ < outgoing_.size(); }

  /// The next bytes that are no message, once they are all there.
  std::optional<std::string> take_raw(std::size_t count);

  /// The next message, once it is there. CommError if it is longer than `most_bytes` or its
  /// signature is wrong.
  std::optional<std::string> take(std::size_t most_bytes);

 private:
  Digest signature(End sender, std::uint64_t number, std::string_view digest) const;

  int descriptor_;
  End own_;
  std::string key_;
  std::string outgoing_;
  std::size_t num_written_ = 0;
  std::string incoming_;
  std::uint64_t num_sent_ = 0;
  std::uint64_t num_received_ = 0;
};

}  // namespace tnt::comm
