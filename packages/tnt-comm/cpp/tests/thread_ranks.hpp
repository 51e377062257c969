#pragma once

#include <unistd.h>

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/group/group.hpp"
#include "tnt/comm/group/runtime.hpp"

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

/// Runs a function on `size` ranks, each a thread with a runtime of its own,
/// made from an environment that `change` may change. Rethrows the first rank's
/// exception.
inline void run_threads(
    int size, const std::function<void(Runtime&)>& function,
    const std::function<void(Environment&)>& change = [](Environment&) {}) {
  static std::atomic<int> num_jobs{0};
  const std::string job_id = text("cpptest", ::getpid(), "x", num_jobs.fetch_add(1));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Environment environment = environment_of(rank, size, job_id);
        change(environment);
        Runtime runtime(environment);
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
}

}  // namespace tnt::comm::tests
