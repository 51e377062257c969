#include "tnt/comm/transport/rma/presence.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kConnectionsAtOnce = 64;
constexpr double kAnswerTimeS = 1.0;

// A connection to one rank, which is not waited for.
TcpSocket begin_connection(std::optional<sockaddr_in> address, int local_rank) {
  if (!address) return {};
  address->sin_port = htons(static_cast<std::uint16_t>(ntohs(address->sin_port) + local_rank));
  return TcpSocket::connecting_to(*address);
}

bool is_connected(const pollfd& connection) {
  return connection.fd >= 0 && (connection.revents & POLLOUT) != 0 &&
         error_of_connection(connection.fd) == 0;
}

// Until all have answered or were refused, or the time is over.
void wait_for_answers(std::vector<pollfd>& connections) {
  const Deadline deadline(kAnswerTimeS);
  const auto is_open = [](const pollfd& one) { return one.fd >= 0 && one.revents == 0; };
  std::vector<pollfd> open;
  while (!deadline.is_over()) {
    open.clear();
    std::copy_if(connections.begin(), connections.end(), std::back_inserter(open), is_open);
    if (open.empty() || ::poll(open.data(), open.size(), 50) < 0) return;
    for (pollfd& connection : connections) {
      for (const pollfd& one : open) {
        if (one.fd == connection.fd) connection.revents = one.revents;
      }
    }
  }
}

}  // namespace

Presence::Presence(int port) : socket_(TcpSocket::bound_to(port)) {
  if (::listen(socket_.descriptor(), SOMAXCONN) == 0) return;
  throw Error(ErrorKind::comm, text("port ", port, " cannot be had (", std::strerror(errno), ")"));
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
    wait_for_answers(connections);
    for (std::size_t rank = begin; rank < end; ++rank) {
      if (!is_connected(connections[rank - begin])) absent.push_back(static_cast<int>(rank));
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
