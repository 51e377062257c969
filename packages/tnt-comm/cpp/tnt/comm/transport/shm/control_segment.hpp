#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/shm/shared_memory.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The ranks of one host, by their world ranks, and what their shared memory is
/// called: `/tnt-<prefix>-...`.
struct HostRanks {
  std::string prefix;
  int first_rank = 0;
  int count = 0;
  std::string job_id = {};  ///< for EndedRanks
};

/// The one segment that exists once per job and host: who the ranks are, whether
/// they live, and their doorbells. Ranks here are world ranks.
///
/// The first rank creates it, the others open it by name; the name is removed
/// as soon as all have joined, so nothing is left whatever happens later.
class ControlSegment {
 public:
  /// Blocks until all ranks of the host have joined. Names those that did not in its errors and in
  /// a report after `start_report_s`. Does not wait for ranks whose process has ended.
  ControlSegment(const HostRanks& host, int rank, const Deadline& deadline, double stall_report_s,
                 double start_report_s = kStartReportS);

  double stall_report_s() const { return stall_report_s_; }
  Doorbell& doorbell_of(int rank) { return record(rank).doorbell; }
  PeerStatus status_of(int rank) const;
  void beat();
  void leave(PeerState state, const std::string& reason);

 private:
  struct alignas(kCacheLineBytes) Record {
    Doorbell doorbell;
    std::atomic<std::uint32_t> state;         // 0: nobody yet; else 1 + PeerState
    std::atomic<std::uint64_t> heartbeat_ns;  // CLOCK_MONOTONIC, one clock per host
    std::uint64_t process_token;  // tells apart ranks that are threads of one process (tests)
    std::int32_t pid;
    std::array<char, 64> host;
    std::array<char, 1024> reason;  // with a zero at its end
  };
  struct alignas(kCacheLineBytes) Header {
    std::array<char, 64> build;  // first in all builds
    std::atomic<std::uint32_t> is_ready;
    std::uint32_t size;
  };

  std::size_t num_bytes() const;
  int end_rank() const { return first_rank_ + count_; }
  void fill();
  void wait_until(const std::function<bool()>& is_reached,
                  const std::function<std::vector<int>()>& awaited,
                  const std::function<std::string(double)>& complaint, const char* remedy,
                  const Deadline& deadline);
  void open(const Deadline& deadline);
  bool try_open();
  void join();
  void wait_for_all(const Deadline& deadline);
  std::vector<int> absent_ranks() const;
  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  Record& record(int rank) const;
  bool is_alive(const Record& record, int rank) const;

  std::string name_;
  int rank_;
  int first_rank_;
  int count_;
  double stall_report_s_;
  double start_report_s_;
  EndedRanks ended_;
  SharedMemory memory_;  // keeps its descriptor: it carries the liveness lock
  std::atomic<bool> has_left_{false};
};

}  // namespace tnt::comm
