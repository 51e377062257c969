// The same buckets and the same schedules as replay.cpp, with SimGrid in place of its servers: what
// two models of a network that know nothing of each other say about the same messages.
//
// Reads from standard input: hosts, bytes per second of a card, seconds of latency, threshold in
// bytes, number of gradients, and for each gradient elements and the second in which it is ready.
// Writes the second in which all hosts have all sums. One rank on each host; sums take no time.

#include <algorithm>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/reducer/plan.hpp"

namespace {

namespace s4u = simgrid::s4u;
using namespace tnt::comm;

struct Gradients {
  std::vector<TensorSpec> tensors;
  std::vector<double> ready;
};

struct Network {
  int num_hosts = 0;
  double bytes_per_s = 0;
  double latency_s = 0;
};

std::string name_of_host(int host) { return "host" + std::to_string(host); }

// A switch without limits, and a card in each host.
void build(const Network& network) {
  auto* const zone = s4u::create_star_zone("cluster");
  for (int i = 0; i < network.num_hosts; ++i) {
    auto* const host = zone->create_host(name_of_host(i), 1e9);
    const auto* const card =
        zone->create_split_duplex_link("card" + std::to_string(i), network.bytes_per_s)
            ->set_latency(network.latency_s / 2)
            ->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                    {{card, s4u::LinkInRoute::Direction::UP}}, true);
  }
  zone->seal();
}

// Where a message of a round waits to be received.
s4u::Mailbox* mailbox(const std::string& exchange, std::size_t round, int from, int to) {
  return s4u::Mailbox::by_name(exchange + "/" + std::to_string(round) + "/" + std::to_string(from) +
                               "/" + std::to_string(to));
}

// What one rank does with one block: as its schedule says.
void run_block(const std::string& exchange, int rank, const Schedule& schedule, double ready) {
  static int nothing = 0;
  s4u::this_actor::sleep_until(ready);
  for (std::size_t i = 0; i < schedule.rounds.size(); ++i) {
    const Round& round = schedule.rounds[i];
    std::vector<s4u::CommPtr> sends;
    for (const Message& message : round.sends) {
      const auto num_bytes = std::max<std::size_t>(1, message.num_bytes);
      sends.push_back(mailbox(exchange, i, rank, message.member)->put_async(&nothing, num_bytes));
    }
    for (const Arrival& arrival : round.arrivals) {
      mailbox(exchange, i, arrival.member, rank)->get<int>();
    }
    s4u::Comm::wait_all(sends);
  }
}

void start_bucket(const Bucket& bucket, std::size_t index, const Gradients& gradients,
                  const SumTree& tree) {
  double ready = 0;
  for (const std::size_t id : bucket.tensor_ids) ready = std::max(ready, gradients.ready[id]);
  const AllreduceCase wanted{.num_bytes = bucket.num_wire_bytes(),
                             .topology = Topology::put_only,
                             .num_members = tree.size()};
  const MessagePattern pattern =
      pattern_of(choose_allreduce(wanted, AllreduceAlgorithm::automatic));
  std::size_t block_index = 0;
  for (const Range& block : blocks_in_place(pattern, bucket.num_wire_bytes())) {
    const std::string exchange = std::to_string(index) + "/" + std::to_string(block_index++);
    for (int rank = 0; rank < tree.size(); ++rank) {
      const Areas areas{.work = 0, .landing = std::size_t{1} << 40};
      s4u::Actor::create(exchange, s4u::Host::by_name(name_of_host(rank)), run_block, exchange,
                         rank, allreduce_schedule(pattern.scheme, rank, tree, block.size(), areas),
                         ready);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  Network network;
  std::size_t threshold = 0;
  std::size_t count = 0;
  std::cin >> network.num_hosts >> network.bytes_per_s >> network.latency_s >> threshold >> count;
  Gradients gradients;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t elements = 0;
    double ready = 0;
    std::cin >> elements >> ready;
    gradients.tensors.push_back({std::to_string(i), DType::float32, elements});
    gradients.ready.push_back(ready);
  }
  if (!std::cin) return 2;
  build(network);
  const FusionPlan plan(gradients.tensors, threshold);
  const SumTree tree(network.num_hosts);
  for (std::size_t i = 0; i < plan.buckets().size(); ++i) {
    start_bucket(plan.buckets()[i], i, gradients, tree);
  }
  engine.run();
  std::cout.precision(12);
  std::cout << s4u::Engine::get_clock() << "\n";
}
