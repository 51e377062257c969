#include "tnt/comm/transport/rma/bootstrap/signed_connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tnt::comm {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kSignatureBytes = std::tuple_size_v<Digest>;

// Lowest byte first, on every kind of processor.
std::string bytes_of_number(std::uint64_t number, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<char>(number >> (8 * i)));
  return result;
}

std::size_t number_in(std::string_view bytes) {
  std::size_t result = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    result |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return result;
}

constexpr char kFailureLetter = 'f';
constexpr std::size_t kLengthLetters = 10;

}  // namespace

Digest SignedConnection::signature(End sender, std::uint64_t number,
                                   std::string_view digest) const {
  std::string signed_part(1, static_cast<char>(sender));
  signed_part += bytes_of_number(number, 8);
  signed_part += digest;
  return hmac(key_, signed_part);
}

void SignedConnection::send(const std::string& text, std::string_view digest) {
  outgoing_ += bytes_of_number(text.size(), kLengthBytes);
  outgoing_ += text;
  outgoing_ += bytes_of(signature(own_, num_sent_++, digest));
}

bool SignedConnection::advance() {
  while (has_output()) {
    const ssize_t count = ::send(descriptor_, outgoing_.data() + num_written_,
                                 outgoing_.size() - num_written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) return false;
    num_written_ += static_cast<std::size_t>(count);
  }
  if (!has_output()) {
    outgoing_.clear();
    num_written_ = 0;
  }
  // Whoever sends faster than this is read must not hold up the others.
  constexpr int kMostReads = 4;
  constexpr std::size_t kMostUnproven = 1024;
  std::array<char, 65536> buffer;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t count = ::recv(descriptor_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (count == 0) return false;
    incoming_.append(buffer.data(), static_cast<std::size_t>(count));
    if (key_.empty() && incoming_.size() > kMostUnproven) return false;
    if (static_cast<std::size_t>(count) < buffer.size()) return true;
  }
  return true;
}

std::optional<std::string> SignedConnection::take_raw(std::size_t count) {
  if (incoming_.size() < count) return std::nullopt;
  std::string result = incoming_.substr(0, count);
  incoming_.erase(0, count);
  return result;
}

std::optional<std::string> SignedConnection::take(std::size_t most_bytes) {
  if (incoming_.size() < kLengthBytes) return std::nullopt;
  const std::size_t num_bytes = number_in(std::string_view(incoming_).substr(0, kLengthBytes));
  if (num_bytes > most_bytes) {
    throw Error(ErrorKind::comm, "a message of ", num_bytes, " bytes was announced, but ",
                most_bytes, " are allowed at most");
  }
  const std::size_t end = kLengthBytes + num_bytes;
  if (incoming_.size() < end + kSignatureBytes) return std::nullopt;
  std::string message = incoming_.substr(kLengthBytes, num_bytes);
  const End sender = own_ == End::hub ? End::member : End::hub;
  const Digest expected = signature(sender, num_received_++, bytes_of(sha256(message)));
  if (!are_equal(expected, std::string_view(incoming_).substr(end, kSignatureBytes))) {
    throw Error(ErrorKind::comm, "a message has a wrong signature");
  }
  incoming_.erase(0, end + kSignatureBytes);
  return message;
}

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

Interface interface_of(const BootstrapPlace& place, const SocketAddress& own) {
  if (!place.interface.empty()) return find_interface(place.interface);
  return interface_with(own).value_or(Interface{.name = "", .address = own});
}

std::string in_letters(std::int64_t number, std::size_t num_letters) {
  const std::string digits = std::to_string(number);
  return std::string(num_letters - digits.size(), '0') + digits;
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
  for (const auto& record : records)
    (result += in_letters(std::ssize(*record), kLengthLetters)) += *record;
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
  throw Error(ErrorKind::comm, "rank 0 has sent ", result.size(), " records for ", size, " ranks.");
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
