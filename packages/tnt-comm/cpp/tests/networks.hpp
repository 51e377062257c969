#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thread_ranks.hpp"

namespace tnt::comm::tests {

/// Names a job in the names of tests.
struct NamedJob {
  std::string name;
  Job job;
};

inline std::ostream& operator<<(std::ostream& stream, const NamedJob& named) {
  return stream << named.name;
}

inline std::string name_of_job(const ::testing::TestParamInfo<NamedJob>& info) {
  return info.param.name;
}

/// All ranks share memory.
inline NamedJob shared_memory(int size) {
  return {text("shm", size), {.size = size, .network = std::nullopt}};
}

/// Every rank on a host of its own.
inline NamedJob put_only(int size) {
  Network network;
  for (int rank = 0; rank < size; ++rank) network.hosts.push_back(rank);
  return {text("flat", size), {.size = size, .network = network}};
}

/// Hosts with equally many ranks, which share memory.
inline NamedJob on_hosts(int num_hosts, int ranks_per_host) {
  Network network;
  network.are_hosts_readable = true;
  for (int rank = 0; rank < num_hosts * ranks_per_host; ++rank) {
    network.hosts.push_back(rank / ranks_per_host);
  }
  return {text(num_hosts, "hosts_x", ranks_per_host),
          {.size = num_hosts * ranks_per_host, .network = network}};
}

/// The same with messages that leave and arrive at random later times.
inline NamedJob late(NamedJob named) {
  named.name += "_late";
  named.job.network->is_late = true;
  return named;
}

/// The same where segments have few counters.
inline NamedJob with_few_counters(NamedJob named, std::size_t most_counters) {
  named.name += "_few_counters";
  named.job.network->most_counters = most_counters;
  return named;
}

/// The same with another order of summation.
inline NamedJob with_tree(NamedJob named, const std::vector<int>& counts) {
  named.name += "_" + text_of_counts(counts);
  named.job.sum_tree = counts;
  return named;
}

inline NamedJob with_algorithm(NamedJob named, const std::string& algorithm) {
  named.name += "_" + algorithm;
  named.job.algorithm = algorithm;
  return named;
}

}  // namespace tnt::comm::tests
