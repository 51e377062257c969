#pragma once

#include <unistd.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_gaspi.hpp"
#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/hierarchical/join.hpp"
#include "tnt/comm/transport/rma/rma_transport.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"

namespace tnt::comm::tests {

/// Environment of one rank of a job on `num_nodes` hosts of `per_node` ranks.
inline Environment place_on_nodes(int rank, int num_nodes, int per_node,
                                  const std::string& job_id) {
  Environment environment;
  environment.rank = rank;
  environment.size = num_nodes * per_node;
  environment.local_rank = rank % per_node;
  environment.local_size = per_node;
  environment.node_rank = rank / per_node;
  environment.num_nodes = num_nodes;
  environment.job_id = job_id;
  environment.transport = "gpi2";
  environment.timeout_s = 30;
  return environment;
}

/// One rank over a FakeFabric, joined like the real thing: with several nodes,
/// the ranks of each share memory.
inline std::unique_ptr<Transport> join_fabric(const std::shared_ptr<FakeFabric>& fabric,
                                              const Environment& environment) {
  const Deadline deadline(environment.timeout_s);
  std::unique_ptr<ShmTransport> host;
  if (environment.num_nodes > 1) {
    const HostRanks ranks{text(environment.job_id, "-node", environment.node_rank),
                          environment.rank - environment.local_rank, environment.local_size};
    host = std::make_unique<ShmTransport>(ranks, environment.rank, deadline,
                                          environment.stall_report_s);
  }
  auto network = std::make_unique<RmaTransport>(
      std::make_unique<FakeGaspi>(fabric, environment.rank), environment, deadline);
  if (!host) return network;
  return std::make_unique<ClusterTransport>(std::move(host), std::move(network));
}

/// What a rank of the functions below gets.
struct FabricRank {
  FakeFabric& fabric;
  Transport& transport;
  const Environment& environment;

  int rank() const { return environment.rank; }
  int size() const { return environment.size; }

  std::unique_ptr<Segment> create(const std::string& key, std::vector<int> members,
                                  std::size_t num_bytes, std::size_t num_notifications,
                                  double timeout_s = 20) {
    return transport.create_segment({key, std::move(members), num_bytes, num_notifications},
                                    Deadline(timeout_s));
  }
};

/// Runs a function on every rank, each a thread with a transport of its own.
/// Rethrows the first rank's exception.
inline void run_transports_on_fabric(
    int num_nodes, int per_node,
    const std::function<void(FakeFabric&, std::unique_ptr<Transport>, const Environment&)>&
        function,
    const std::function<void(Environment&)>& adjust = [](Environment&) {}) {
  static std::atomic<int> num_jobs{0};
  const std::string job_id = text("fabric", ::getpid(), "x", num_jobs.fetch_add(1));
  const int size = num_nodes * per_node;
  const auto fabric = std::make_shared<FakeFabric>(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  // A rank that a test kills has joined in the eyes of all others.
  std::barrier all_have_joined(size);
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      bool has_joined = false;
      try {
        Environment environment = place_on_nodes(rank, num_nodes, per_node, job_id);
        adjust(environment);
        auto transport = join_fabric(fabric, environment);
        has_joined = true;
        all_have_joined.arrive_and_wait();
        function(*fabric, std::move(transport), environment);
      } catch (...) {
        if (!has_joined) all_have_joined.arrive_and_drop();
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// The same with a transport that is not given away.
inline void run_on_fabric(
    int num_nodes, int per_node, const std::function<void(FabricRank)>& function,
    const std::function<void(Environment&)>& adjust = [](Environment&) {}) {
  run_transports_on_fabric(
      num_nodes, per_node,
      [&](FakeFabric& fabric, std::unique_ptr<Transport> transport,
          const Environment& environment) { function({fabric, *transport, environment}); },
      adjust);
}

/// Waits for something that other threads bring about; says whether it came.
template <typename Predicate>
bool comes_true(Predicate&& predicate, double timeout_s = 10) {
  const Deadline deadline(timeout_s);
  while (!predicate()) {
    if (deadline.is_over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace tnt::comm::tests
