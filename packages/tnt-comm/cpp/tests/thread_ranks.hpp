#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "faulty_transport.hpp"
#include "put_only_transport.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"

namespace tnt::comm::tests {

/// Environment of one rank of a new job.
inline Environment environment_of(int rank, int size, const std::string& job_id) {
  Environment environment;
  environment.rank = environment.local_rank = rank;
  environment.size = environment.local_size = size;
  environment.job_id = job_id;
  environment.timeout_s = 30;
  return environment;
}

/// A job of ranks that are threads of this process.
struct Job {
  int size = 1;
  std::optional<Network> network;  ///< otherwise shared memory among all
  std::string algorithm = "auto";
  std::vector<int> sum_tree = {};  ///< empty: the default order
  std::function<void(Environment&)> change = [](Environment&) {};
  Violations* violations = nullptr;  ///< otherwise there must be none
};

inline std::unique_ptr<Transport> transport_of(const Environment& environment, const Job& job,
                                               Violations& violations) {
  std::unique_ptr<Transport> readable;
  if (environment.size == 1) {
    readable = std::make_unique<SoloTransport>();
  } else {
    readable = std::make_unique<ShmTransport>(HostRanks{environment.job_id, 0, environment.size},
                                              environment.rank, Deadline(environment.timeout_s),
                                              environment.stall_report_s);
  }
  if (!job.network) return std::make_unique<FaultyTransport>(std::move(readable));
  return std::make_unique<FaultyTransport>(
      std::make_unique<PutOnlyTransport>(std::move(readable), *job.network, violations));
}

/// Runs a function on all ranks of a job, each a thread with a runtime of its
/// own. Rethrows the first rank's exception.
inline void run_job(const Job& job, const std::function<void(Runtime&)>& function) {
  static std::atomic<int> num_jobs{0};
  const std::string job_id = text("cpptest", ::getpid(), "x", num_jobs.fetch_add(1));
  Violations own;
  Violations& violations = job.violations != nullptr ? *job.violations : own;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(job.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Environment environment = environment_of(rank, job.size, job_id);
        environment.allreduce_algorithm = job.algorithm;
        environment.sum_tree = job.sum_tree;
        job.change(environment);
        Runtime runtime(environment, transport_of(environment, job, violations));
        function(runtime);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  EXPECT_EQ(own.num_unasked, 0);
  EXPECT_EQ(own.num_not_growing, 0);
  EXPECT_EQ(own.num_out_of_bounds, 0);
  EXPECT_EQ(own.num_other_senders, 0);
}

/// The same over shared memory, in environments that `change` may change.
inline void run_threads(
    int size, const std::function<void(Runtime&)>& function,
    const std::function<void(Environment&)>& change = [](Environment&) {}) {
  run_job({.size = size, .network = std::nullopt, .change = change}, function);
}

}  // namespace tnt::comm::tests
