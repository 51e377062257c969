#include "tnt/comm/transport/rma/bootstrap/handshake.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr char kFailureLetter = 'f';
constexpr std::size_t kLengthLetters = 10;

std::string length_text(std::size_t number) {
  std::string result = std::to_string(number);
  return std::string(kLengthLetters - result.size(), '0') + result;
}

}  // namespace

std::string shown(const HostAndPort& place) {
  const bool is_ipv6 = place.host.find(':') != std::string::npos;
  return text("TNT_RENDEZVOUS='", is_ipv6 ? "[" : "", place.host, is_ipv6 ? "]:" : ":", place.port,
              "'");
}

std::string reason_of(int error, const SocketAddress& address) {
  if (error == EINVAL && address.lacks_interface()) {
    return text("the address ", address.host(),
                " is one of every interface: write which one, as in [", address.host(),
                "%eth0]:port");
  }
  return std::strerror(error);
}

std::string in_letters(int rank) {
  std::string result = std::to_string(rank);
  return std::string(kRankLetters - result.size(), '0') + result;
}

Digest proof_of(const BootstrapPlace& place, std::string_view end, std::string_view numbers,
                std::string_view rank) {
  std::string message(end);
  ((message += numbers) += rank) += text("/", place.size, "/", place.job_id);
  return hmac(place.secret, message);
}

std::string key_of(const BootstrapPlace& place, std::string_view numbers) {
  return std::string(bytes_of(hmac(place.secret, text("session", numbers))));
}

// Each record is behind its length.
std::string table_of(const std::vector<std::optional<std::string>>& records) {
  std::string result(1, kTableLetter);
  for (const auto& record : records) (result += length_text(record->size())) += *record;
  return result;
}

std::vector<std::string> records_in(std::string_view table, int size) {
  std::vector<std::string> result;
  while (!table.empty()) {
    const std::size_t num_bytes = std::stoul(std::string(table.substr(0, kLengthLetters)));
    result.emplace_back(table.substr(kLengthLetters, num_bytes));
    table.remove_prefix(std::min(table.size(), kLengthLetters + num_bytes));
  }
  if (result.size() == static_cast<std::size_t>(size)) return result;
  throw Error(ErrorKind::comm,
              text("rank 0 has sent ", result.size(), " records for ", size, " ranks."));
}

std::string failure_message(const Error& error) {
  return text(kFailureLetter, static_cast<int>(error.kind()), error.what());
}

// The second letter is that of the kind.
void raise_failure(std::string_view message) {
  const int kind = message.size() > 1 ? message[1] - '0' : 0;
  const bool is_kind = kind >= 1 && kind <= 5;
  throw Error(is_kind ? static_cast<ErrorKind>(kind) : ErrorKind::comm,
              std::string(message.substr(std::min<std::size_t>(2, message.size()))));
}

}  // namespace tnt::comm
