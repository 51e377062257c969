#include "tnt/comm/transport/gpi2/rank_place.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "tnt/comm/base/build_name.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

[[noreturn]] void refuse(std::size_t rank, const RankPlace& place, const char* variable,
                         const std::string& value, const std::string& rule) {
  throw UsageError(text("The environments of the ranks contradict each other: rank ", rank,
                        " (host ", place.host, ", pid ", place.pid, ") has ", variable, "=", value,
                        ", but ", rule, ". All ranks must be started by one launch."));
}

void require(bool is_right, std::size_t rank, const RankPlace& place, const char* variable,
             int value, const std::string& rule) {
  if (!is_right) refuse(rank, place, variable, std::to_string(value), rule);
}

}  // namespace

RankPlace place_of(const Environment& environment, const std::string& engine) {
  std::array<char, 64> host{};
  ::gethostname(host.data(), host.size() - 1);
  RankPlace place;
  place.build = text(build_name(), ", ", engine);
  place.size = environment.size;
  place.local_rank = environment.local_rank;
  place.local_size = environment.local_size;
  place.node_rank = environment.node_rank;
  place.num_nodes = environment.num_nodes;
  place.job_id = environment.job_id;
  place.host = host.data();
  place.pid = ::getpid();
  return place;
}

ControlMessage hello_of(const RankPlace& place) {
  ControlMessage message;
  message.kind = ControlKind::hello;
  message.numbers = {place.size,      place.local_rank, place.local_size,
                     place.node_rank, place.num_nodes,  place.pid};
  message.set_text(text(place.build, "\n", place.job_id, "\n", place.host));
  return message;
}

RankPlace place_in(const ControlMessage& hello) {
  RankPlace place;
  place.size = static_cast<int>(hello.numbers[0]);
  place.local_rank = static_cast<int>(hello.numbers[1]);
  place.local_size = static_cast<int>(hello.numbers[2]);
  place.node_rank = static_cast<int>(hello.numbers[3]);
  place.num_nodes = static_cast<int>(hello.numbers[4]);
  place.pid = static_cast<int>(hello.numbers[5]);
  std::istringstream lines(hello.text());
  std::getline(lines, place.build);
  std::getline(lines, place.job_id);
  std::getline(lines, place.host);
  return place;
}

std::vector<int> nodes_of(const std::vector<RankPlace>& places) {
  const RankPlace& first = places.front();
  const auto of_first = [](int value) { return text("rank 0 has ", value); };
  std::vector<int> nodes;
  int local_rank = 0;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    if (place.build != first.build) {
      throw UsageError(text("The ranks run different builds: rank ", rank, " (host ", place.host,
                            ") has ", place.build, ", and rank 0 (host ", first.host, ") has ",
                            first.build, ". Install the same versions on all hosts."));
    }
    if (place.job_id != first.job_id) {
      refuse(rank, place, "TNT_JOB_ID", place.job_id, text("rank 0 has ", first.job_id));
    }
    require(place.size == first.size, rank, place, "TNT_SIZE", place.size, of_first(first.size));
    require(place.num_nodes == first.num_nodes, rank, place, "TNT_NUM_NODES", place.num_nodes,
            of_first(first.num_nodes));
    const int previous = nodes.empty() ? 0 : nodes.back();
    const bool is_next_node = !nodes.empty() && place.node_rank == previous + 1;
    require(place.node_rank == previous || is_next_node, rank, place, "TNT_NODE_RANK",
            place.node_rank,
            text("the rank before it is on node ", previous,
                 ", and the ranks of a node must be consecutive"));
    local_rank = is_next_node ? 0 : local_rank;
    require(place.local_rank == local_rank, rank, place, "TNT_LOCAL_RANK", place.local_rank,
            text("it is number ", local_rank, " of node ", place.node_rank));
    ++local_rank;
    nodes.push_back(place.node_rank);
  }
  require(nodes.back() == first.num_nodes - 1, 0, first, "TNT_NUM_NODES", first.num_nodes,
          text("the ranks are on ", nodes.back() + 1));
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto count = std::count(nodes.begin(), nodes.end(), nodes[rank]);
    require(places[rank].local_size == count, rank, places[rank], "TNT_LOCAL_SIZE",
            places[rank].local_size, text("its node has ", count, " ranks"));
  }
  return nodes;
}

}  // namespace tnt::comm
