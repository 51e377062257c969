#include "tnt/comm/transport/rma/presence.hpp"

#include <poll.h>
#include <sys/socket.h>

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
TcpSocket begin_connection(const std::vector<SocketAddress>& of_host, int port) {
  return of_host.empty() ? TcpSocket() : TcpSocket::connecting_to(of_host[0].with_port(port));
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

void TcpHostProbe::ask() {
  connection_.close();
  answer_ = Answer::none;
  connection_ = TcpSocket::connecting_to(address_);
  if (!connection_.is_open()) answer_ = meaning_of(errno);
}

HostProbe::Answer TcpHostProbe::answer() {
  pollfd connection{connection_.descriptor(), POLLOUT, 0};
  if (connection.fd >= 0 && ::poll(&connection, 1, 0) > 0) {
    answer_ = meaning_of(error_of_connection(connection.fd));
    connection_.close();
  }
  return answer_;
}

TcpSocket bound_to_port(int port) {
  TcpSocket socket = TcpSocket::bound_to(SocketAddress::any_of_ipv4(port));
  if (!socket.is_open()) refuse_port(port);
  return socket;
}

Presence::Presence(int port) : socket_(bound_to_port(port)) {
  if (::listen(socket_.descriptor(), SOMAXCONN) != 0) refuse_port(port);
}

std::vector<int> absent_ranks(const std::vector<RankAddress>& addresses, int first_port) {
  std::map<std::string, std::vector<SocketAddress>> hosts;
  for (const RankAddress& address : addresses) {
    if (!hosts.contains(address.host)) hosts[address.host] = addresses_of(address.host, AF_INET);
  }
  std::vector<int> absent;
  for (std::size_t begin = 0; begin < addresses.size(); begin += kConnectionsAtOnce) {
    const std::size_t end = std::min(begin + kConnectionsAtOnce, addresses.size());
    std::vector<TcpSocket> sockets;
    std::vector<pollfd> connections;
    for (std::size_t rank = begin; rank < end; ++rank) {
      const RankAddress& address = addresses[rank];
      const int port = first_port + address.local_rank;
      sockets.push_back(begin_connection(hosts[address.host], port));
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
