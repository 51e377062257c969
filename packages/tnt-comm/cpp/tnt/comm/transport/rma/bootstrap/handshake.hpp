#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"
#include "tnt/comm/transport/rma/bootstrap/sha256.hpp"

namespace tnt::comm {

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

std::string in_letters(int rank);

/// What an end ("hub" or "member") of a connection proves to know: the secret, for these numbers,
/// this job and this rank.
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
