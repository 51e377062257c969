#include "tnt/comm/transport/gpi2/presence.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kConnectionsAtOnce = 64;
constexpr double kAnswerTimeS = 1.0;

sockaddr_in any_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Of IPv4, as GPI-2 does; nothing if the name is not known.
std::optional<sockaddr_in> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  return address;
}

// A connection to one rank, which is not waited for.
pollfd begin_connection(std::optional<sockaddr_in> address, int port) {
  pollfd connection{-1, POLLOUT, 0};
  if (!address) return connection;
  address->sin_port = htons(static_cast<std::uint16_t>(port));
  connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int status =
      ::connect(connection.fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  if (status != 0 && errno != EINPROGRESS) {
    ::close(connection.fd);
    connection.fd = -1;
  }
  return connection;
}

bool is_connected(const pollfd& connection) {
  if (connection.fd < 0 || (connection.revents & POLLOUT) == 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(connection.fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
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

Presence::Presence(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int is_on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
  const sockaddr_in address = any_address(port);
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket_, SOMAXCONN) == 0) {
    return;
  }
  const std::string reason = std::strerror(errno);
  ::close(socket_);
  throw Error(ErrorKind::comm, text("port ", port, " cannot be had (", reason, ")"));
}

Presence::~Presence() {
  ::close(socket_);
}

std::vector<int> absent_ranks(const std::vector<RankAddress>& addresses, int first_port) {
  std::map<std::string, std::optional<sockaddr_in>> hosts;
  for (const RankAddress& address : addresses) {
    if (!hosts.contains(address.host)) hosts[address.host] = look_up(address.host);
  }
  std::vector<int> absent;
  for (std::size_t begin = 0; begin < addresses.size(); begin += kConnectionsAtOnce) {
    const std::size_t end = std::min(begin + kConnectionsAtOnce, addresses.size());
    std::vector<pollfd> connections;
    for (std::size_t rank = begin; rank < end; ++rank) {
      connections.push_back(
          begin_connection(hosts[addresses[rank].host], first_port + addresses[rank].local_rank));
    }
    wait_for_answers(connections);
    for (std::size_t rank = begin; rank < end; ++rank) {
      const pollfd& connection = connections[rank - begin];
      if (!is_connected(connection)) absent.push_back(static_cast<int>(rank));
      if (connection.fd >= 0) ::close(connection.fd);
    }
  }
  return absent;
}

std::string names_of(const std::vector<int>& ranks, const std::vector<RankAddress>& addresses) {
  constexpr std::size_t kMostNames = 10;
  std::string result = "rank(s)";
  for (std::size_t index = 0; index < std::min(ranks.size(), kMostNames); ++index) {
    const auto rank = static_cast<std::size_t>(ranks[index]);
    result += text(index == 0 ? " " : ", ", rank, " (host ", addresses[rank].host, ")");
  }
  if (ranks.size() > kMostNames) result += text(" and ", ranks.size() - kMostNames, " more");
  return result;
}

}  // namespace tnt::comm
