#include "tnt/comm/transport/rma/rank_location.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>

#include "tnt/comm/base/process.hpp"

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
  throw Error(ErrorKind::comm, "port ", port, " cannot be used (", std::strerror(errno), ")");
}

// Which connections are made, when all have been answered or refused, or the time is over.
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

template <typename Value>
void require(bool is_right, std::size_t rank, const RankLocation& location, const char* variable,
             const Value& value, const std::string& rule) {
  if (is_right) return;
  throw UsageError("The environments of the ranks contradict each other: rank ", rank, " (host ",
                   location.host, ", pid ", location.pid, ") has ", variable, "=", value, ", but ",
                   rule, ". All ranks must be started by one launch.");
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
      const std::vector<SocketAddress>& of_host = hosts[address.host];
      const int port = first_port + address.local_rank;
      sockets.push_back(of_host.empty() ? TcpSocket()
                                        : TcpSocket::connecting_to(of_host[0].with_port(port)));
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
  return names_of_ranks(
      ranks, [&](int rank) { return text(rank, " (host ", at(addresses, rank).host, ")"); });
}

RankLocation location_of(const Environment& environment, const std::string& engine) {
  return {.size = environment.size,
          .local_rank = environment.local_rank,
          .local_size = environment.local_size,
          .node_rank = environment.node_rank,
          .num_nodes = environment.num_nodes,
          .build = text(build_name(), ", ", engine),
          .job_id = environment.job_id,
          .sum_tree = text_of_counts(environment.sum_tree),
          .host = host_name(),
          .pid = ::getpid()};
}

ControlMessage hello_of(const RankLocation& location) {
  return {ControlKind::hello,
          text(location.build, "\n", location.job_id, "\n", location.host, "\n", location.sum_tree),
          {location.size, location.local_rank, location.local_size, location.node_rank,
           location.num_nodes, location.pid}};
}

RankLocation location_in(const ControlMessage& hello) {
  RankLocation location;
  location.size = static_cast<int>(hello.numbers[0]);
  location.local_rank = static_cast<int>(hello.numbers[1]);
  location.local_size = static_cast<int>(hello.numbers[2]);
  location.node_rank = static_cast<int>(hello.numbers[3]);
  location.num_nodes = static_cast<int>(hello.numbers[4]);
  location.pid = static_cast<int>(hello.numbers[5]);
  std::istringstream lines(hello.text());
  std::getline(lines, location.build);
  std::getline(lines, location.job_id);
  std::getline(lines, location.host);
  std::getline(lines, location.sum_tree);
  return location;
}

std::vector<int> nodes_of(const std::vector<RankLocation>& locations) {
  const RankLocation& first = locations.front();
  const auto of_first = [](const auto& value) { return text("rank 0 has ", value); };
  std::vector<int> nodes;
  int local_rank = 0;
  for (std::size_t rank = 0; rank < locations.size(); ++rank) {
    const RankLocation& location = locations[rank];
    if (location.build != first.build) {
      throw UsageError("The ranks run different builds: rank ", rank, " (host ", location.host,
                       ") has ", location.build, ", and rank 0 (host ", first.host, ") has ",
                       first.build, ". Install the same versions on all hosts.");
    }
    require(location.job_id == first.job_id, rank, location, "TNT_JOB_ID", location.job_id,
            of_first(first.job_id));
    require(location.sum_tree == first.sum_tree, rank, location, "TNT_SUM_TREE", location.sum_tree,
            of_first(first.sum_tree));
    require(location.size == first.size, rank, location, "TNT_SIZE", location.size,
            of_first(first.size));
    require(location.num_nodes == first.num_nodes, rank, location, "TNT_NUM_NODES",
            location.num_nodes, of_first(first.num_nodes));
    const int previous = nodes.empty() ? 0 : nodes.back();
    const bool is_next_node = !nodes.empty() && location.node_rank == previous + 1;
    require(location.node_rank == previous || is_next_node, rank, location, "TNT_NODE_RANK",
            location.node_rank,
            text("the rank before it is on node ", previous,
                 ", and the ranks of a node must be consecutive"));
    local_rank = is_next_node ? 0 : local_rank;
    require(location.local_rank == local_rank, rank, location, "TNT_LOCAL_RANK",
            location.local_rank,
            text("it is number ", local_rank, " of node ", location.node_rank));
    ++local_rank;
    nodes.push_back(location.node_rank);
  }
  require(nodes.back() == first.num_nodes - 1, 0, first, "TNT_NUM_NODES", first.num_nodes,
          text("the ranks are on ", nodes.back() + 1));
  for (std::size_t rank = 0; rank < locations.size(); ++rank) {
    const auto count = std::count(nodes.begin(), nodes.end(), nodes[rank]);
    require(locations[rank].local_size == count, rank, locations[rank], "TNT_LOCAL_SIZE",
            locations[rank].local_size, text("its node has ", count, " ranks"));
  }
  return nodes;
}

}  // namespace tnt::comm
