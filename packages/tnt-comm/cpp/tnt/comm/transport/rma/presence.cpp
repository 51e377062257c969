#include "tnt/comm/transport/rma/presence.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kConnectionsAtOnce = 64;
constexpr double kAnswerTimeS = 1.0;

HostProbe::Answer meaning_of(int error) {
  constexpr std::array kSilence = {EHOSTUNREACH, EHOSTDOWN, ENETUNREACH, ENETDOWN, ETIMEDOUT};
  if (error == 0 || error == ECONNREFUSED || error == ECONNRESET) return HostProbe::Answer::given;
  const bool is_silent = std::find(kSilence.begin(), kSilence.end(), error) != kSilence.end();
  return is_silent ? HostProbe::Answer::none : HostProbe::Answer::moot;
}

[[noreturn]] void refuse_port(int port) {
  throw Error(ErrorKind::comm, text("port ", port, " cannot be had (", std::strerror(errno), ")"));
}

// A connection to one rank, which is not waited for.
TcpSocket begin_connection(std::optional<sockaddr_in> address, int local_rank) {
  if (!address) return {};
  address->sin_port = htons(static_cast<std::uint16_t>(ntohs(address->sin_port) + local_rank));
  return TcpSocket::connecting_to(*address);
}

// Which are made, when all have been answered or refused, or the time is over.
std::vector<bool> wait_for_answers(std::vector<pollfd> connections) {
  const Deadline deadline(kAnswerTimeS);
  std::vector<bool> is_made(connections.size());
  const auto is_open = [](const pollfd& one) { return one.fd >= 0; };
  while (std::any_of(connections.begin(), connections.end(), is_open) && !deadline.is_over()) {
    if (::poll(connections.data(), connections.size(), 50) < 0) break;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      pollfd& one = connections[i];
      if (one.fd < 0 || one.revents == 0) continue;
      is_made[i] = (one.revents & POLLOUT) != 0 && error_of_connection(one.fd) == 0;
      one.fd = -1;  // poll() passes over it
    }
  }
  return is_made;
}

}  // namespace

TcpSocket::TcpSocket(TcpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void TcpSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

TcpSocket TcpSocket::bound_to(int port) {
  TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int is_on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
  if (::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
      0) {
    refuse_port(port);
  }
  return socket;
}

TcpSocket TcpSocket::connecting_to(const sockaddr_in& address) {
  TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.descriptor_ < 0) return socket;
  const int status =
      ::connect(socket.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (status != 0 && errno != EINPROGRESS) {
    const int error = errno;
    socket.close();
    errno = error;
  }
  return socket;
}

std::optional<sockaddr_in> look_up(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int error_of_connection(int descriptor) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void TcpHostProbe::ask() {
  connection_.close();
  answer_ = Answer::none;
  connection_ = TcpSocket::connecting_to(address_);
  if (connection_.descriptor() < 0) answer_ = meaning_of(errno);
}

HostProbe::Answer TcpHostProbe::answer() {
  pollfd connection{connection_.descriptor(), POLLOUT, 0};
  if (connection.fd >= 0 && ::poll(&connection, 1, 0) > 0) {
    answer_ = meaning_of(error_of_connection(connection.fd));
    connection_.close();
  }
  return answer_;
}

Presence::Presence(int port) : socket_(TcpSocket::bound_to(port)) {
  if (::listen(socket_.descriptor(), SOMAXCONN) != 0) refuse_port(port);
}

std::vector<int> absent_ranks(const std::vector<RankAddress>& addresses, int first_port) {
  std::map<std::string, std::optional<sockaddr_in>> hosts;
  for (const RankAddress& address : addresses) {
    if (!hosts.contains(address.host)) hosts[address.host] = look_up(address.host, first_port);
  }
  std::vector<int> absent;
  for (std::size_t begin = 0; begin < addresses.size(); begin += kConnectionsAtOnce) {
    const std::size_t end = std::min(begin + kConnectionsAtOnce, addresses.size());
    std::vector<TcpSocket> sockets;
    std::vector<pollfd> connections;
    for (std::size_t rank = begin; rank < end; ++rank) {
      const RankAddress& address = addresses[rank];
      sockets.push_back(begin_connection(hosts[address.host], address.local_rank));
      connections.push_back({sockets.back().descriptor(), POLLOUT, 0});
    }
    const std::vector<bool> is_made = wait_for_answers(std::move(connections));
    for (std::size_t rank = begin; rank < end; ++rank) {
      if (!is_made[rank - begin]) absent.push_back(static_cast<int>(rank));
    }
  }
  return absent;
}

std::string names_of(const std::vector<int>& ranks, const std::vector<RankAddress>& addresses) {
  return names_of_ranks(ranks, [&](int rank) {
    return text(rank, " (host ", addresses[static_cast<std::size_t>(rank)].host, ")");
  });
}

}  // namespace tnt::comm
