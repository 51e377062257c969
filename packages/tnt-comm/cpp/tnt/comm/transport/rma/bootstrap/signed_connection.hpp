#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"
#include "tnt/comm/transport/rma/bootstrap/sha256.hpp"

namespace tnt::comm {

/// Messages over a connected socket that does not block, each with its length and a signature: the
/// HMAC, under a key of the connection, of the direction, its number and the digest of its text.
class SignedConnection {
 public:
  enum class End : char { hub = 'h', member = 'm' };

  SignedConnection(int descriptor, End own) : descriptor_(descriptor), own_(own) {}

  /// From now on messages are signed. Before, there are only as many bytes as both ends expect.
  void set_key(std::string key) { key_ = std::move(key); }

  /// Appends bytes that are no message.
  void send_raw(std::string_view bytes) { outgoing_.append(bytes); }

  /// Appends a message. `digest`: of its text.
  void send(const std::string& text, std::string_view digest);
  void send(const std::string& text) { send(text, bytes_of(sha256(text))); }

  /// Sends and receives what is possible now. False if the connection has ended.
  bool advance();
  bool has_output() const { return num_written_ < outgoing_.size(); }

  /// The next bytes that are no message, once they are all there.
  std::optional<std::string> take_raw(std::size_t count);

  /// The next message, once it is there. CommError if it is too long or its signature is wrong.
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

// How rank 0 and another rank begin to talk. First come the magic and the number of rank 0; then
// the magic, number, rank and proof of the other; then the proof of rank 0. Signed messages follow,
// whose first letter says what they are.

inline constexpr std::string_view kMagic = "tnt-bootstrap-1\n";
inline constexpr std::size_t kNumberBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kRankLetters = 8;
inline constexpr char kRecordLetter = 'r';
inline constexpr char kTableLetter = 't';
/// Instead of the proof of rank 0, for whoever could not prove anything.
inline constexpr std::string_view kRefusal{
    "refused\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", kProofBytes};
inline constexpr int kLookMs = 100;  // a turn of a wait

/// For messages, as a user would write it: "TNT_RENDEZVOUS='host:port'".
std::string shown(const HostAndPort& place);

/// Why a socket cannot be had at an address, by its errno.
std::string reason_of(int error, const SocketAddress& address);

/// The one that the place names, or that has this rank's address.
Interface interface_of(const BootstrapPlace& place, const SocketAddress& own);

std::string in_letters(std::int64_t number, std::size_t num_letters);

/// What an end ("hub" or "member") proves to know: the secret, for these numbers, job and rank.
Digest proof_of(const BootstrapPlace& place, std::string_view end, std::string_view numbers,
                std::string_view rank);

/// With which messages are signed later.
std::string key_of(const BootstrapPlace& place, std::string_view numbers);

/// The message with the records of all ranks.
std::string table_of(const std::vector<std::optional<std::string>>& records);
std::vector<std::string> records_in(std::string_view table, int size);

/// The message of an error that ends the start of all ranks, and the error of such a message.
std::string failure_message(const Error& error);
[[noreturn]] void raise_failure(std::string_view message);

}  // namespace tnt::comm
