#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/doorbell.hpp"
#include "tnt/comm/transport/shm/shared_memory.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The one segment that exists once per job: who the ranks are, whether they
/// live, and their doorbells.
///
/// Local rank 0 creates it, the others open it by name; the name is removed as
/// soon as all have joined, so nothing is left whatever happens later.
class ControlSegment {
 public:
  /// Blocks until all `size` ranks have joined. Names those that did not in
  /// its errors and in a report after `stall_report_s`.
  ControlSegment(const std::string& job_id, int rank, int size, const Deadline& deadline,
                 double stall_report_s);

  DoorbellWords& doorbell_of(int rank) { return record(rank).doorbell; }
  PeerStatus status_of(int rank) const;
  void beat();
  void leave(PeerState state, const std::string& reason);

 private:
  struct alignas(64) Record {
    DoorbellWords doorbell;
    std::atomic<std::uint32_t> state;         // 0: nobody yet; else 1 + PeerState
    std::atomic<std::uint64_t> heartbeat_ns;  // CLOCK_MONOTONIC, one clock per host
    std::uint64_t process_token;  // tells apart ranks that are threads of one process (tests)
    std::int32_t pid;
    std::array<char, 64> host;
    std::array<char, 1024> reason;
  };
  struct alignas(64) Header {
    std::atomic<std::uint32_t> is_ready;
    std::uint32_t size;
  };

  static std::size_t num_bytes(int size);
  void create();
  void open(const Deadline& deadline, double stall_report_s);
  void join();
  void wait_for_all(const Deadline& deadline, double stall_report_s) const;
  std::string absent_ranks() const;
  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  Record& record(int rank) const;
  bool is_alive(const Record& record, int rank) const;

  std::string name_;
  int rank_;
  int size_;
  SharedMemory memory_;  // keeps its descriptor: it carries the liveness lock
};

}  // namespace tnt::comm
