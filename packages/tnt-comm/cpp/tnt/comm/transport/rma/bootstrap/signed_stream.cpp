#include "tnt/comm/transport/rma/bootstrap/signed_stream.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tnt/comm/base/error.hpp"

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

}  // namespace

Digest SignedStream::signature(End sender, std::uint64_t number, std::string_view digest) const {
  std::string signed_part(1, static_cast<char>(sender));
  signed_part += bytes_of_number(number, 8);
  signed_part += digest;
  return hmac(key_, signed_part);
}

void SignedStream::send(const std::string& text, std::string_view digest) {
  outgoing_ += bytes_of_number(text.size(), kLengthBytes);
  outgoing_ += text;
  outgoing_ += bytes_of(signature(own_, num_sent_++, digest));
}

void SignedStream::send(const std::string& text) {
  send(text, bytes_of(sha256(text)));
}

bool SignedStream::advance() {
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

std::optional<std::string> SignedStream::take_raw(std::size_t count) {
  if (incoming_.size() < count) return std::nullopt;
  std::string result = incoming_.substr(0, count);
  incoming_.erase(0, count);
  return result;
}

std::optional<std::string> SignedStream::take(std::size_t most_bytes) {
  if (incoming_.size() < kLengthBytes) return std::nullopt;
  const std::size_t num_bytes = number_in(std::string_view(incoming_).substr(0, kLengthBytes));
  if (num_bytes > most_bytes) {
    throw Error(ErrorKind::comm, text("a message of ", num_bytes, " bytes was announced, where ",
                                      most_bytes, " are the most"));
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

}  // namespace tnt::comm
