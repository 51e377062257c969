#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/start_wait.hpp"
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
  std::string job_id = {};    ///< for EndedRanks
  std::string sum_tree = {};  ///< text_of_counts() of TNT_SUM_TREE, the same on all ranks
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
                 double start_report_s = kStartReportS)
      : name_(text("/tnt-", host.prefix, "-control")),
        rank_(rank),
        first_rank_(host.first_rank),
        count_(host.count),
        stall_report_s_(stall_report_s),
        start_report_s_(start_report_s),
        sum_tree_(host.sum_tree),
        ended_(host.job_id, rank) {
    const bool is_creator = rank == first_rank_;
    if (is_creator) memory_ = SharedMemory::create(name_, num_bytes());
    try {
      if (is_creator) {
        fill();
      } else {
        open(deadline);
      }
      join();
      wait_for_all(deadline);
    } catch (...) {
      if (is_creator) SharedMemory::unlink(name_);
      throw;
    }
    if (is_creator) SharedMemory::unlink(name_);
  }

  double stall_report_s() const { return stall_report_s_; }
  Doorbell& doorbell_of(int rank) { return record(rank).doorbell; }

  PeerStatus status_of(int rank) const {
    const Record& peer = record(rank);
    PeerStatus status;
    const std::uint32_t state = peer.state.load(std::memory_order_acquire);
    if (state < encode(PeerState::running)) {
      status.state = PeerState::starting;
      return status;
    }
    status.state = decode(state);
    status.host = peer.host.get();
    status.pid = peer.pid;
    const auto now = static_cast<std::uint64_t>(now_ns());
    const std::uint64_t beat_ns = peer.heartbeat_ns.load(std::memory_order_relaxed);
    status.heartbeat_age_s = now > beat_ns ? static_cast<double>(now - beat_ns) * 1e-9 : 0.0;
    if (status.state != PeerState::running) status.reason = peer.reason.get();
    if (status.state == PeerState::running && !is_alive(peer, rank)) {
      // It may have said goodbye between the two looks.
      const std::uint32_t latest = peer.state.load(std::memory_order_acquire);
      status.state = latest == state ? PeerState::dead : decode(latest);
      status.reason =
          status.state == PeerState::dead ? ended_.end_of(rank).value_or("") : peer.reason.get();
    }
    return status;
  }

  void beat() {
    record(rank_).heartbeat_ns.store(static_cast<std::uint64_t>(now_ns()),
                                     std::memory_order_relaxed);
  }

  void leave(PeerState state, const std::string& reason) {
    if (has_left_.exchange(true)) return;
    Record& own = record(rank_);
    own.reason.set(reason);
    own.state.store(encode(state), std::memory_order_release);
    full_fence();
    for (int rank = first_rank_; rank < end_rank(); ++rank) record(rank).doorbell.ring_if_heard();
  }

 private:
  // Liveness by a lock that the kernel releases when a process dies.
  //
  // Every rank holds a POSIX record lock on one byte of the control segment's file. The lock
  // belongs to the process: it ends with it, however it ends, and a forked child does not have
  // it. It also ends when the process closes *any* descriptor of that file, so there must be
  // exactly one. Locks of a process of its own are not seen by it.

  static struct flock one_byte(int index) {
    return {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = index, .l_len = 1, .l_pid = 0};
  }

  static bool try_lock_byte(int descriptor, int index) {
    struct flock range = one_byte(index);
    return ::fcntl(descriptor, F_SETLK, &range) == 0;
  }

  static bool is_byte_locked_by_other(int descriptor, int index) {
    struct flock range = one_byte(index);
    // If the question cannot be asked, assume life: deadlines still end waits.
    if (::fcntl(descriptor, F_GETLK, &range) != 0) return true;
    return range.l_type != F_UNLCK;
  }

  static std::uint32_t encode(PeerState state) { return 1 + static_cast<std::uint32_t>(state); }

  // Of a rank that has joined. What is none of the states is no sign of life.
  static PeerState decode(std::uint32_t state) {
    return state <= encode(PeerState::dead) ? static_cast<PeerState>(state - 1) : PeerState::dead;
  }

  // Random, so that equal pids in different containers are not one process.
  static std::uint64_t this_process_token() {
    static const std::uint64_t token = [] {
      std::random_device source;
      return (static_cast<std::uint64_t>(source()) << 32) | source();
    }();
    return token;
  }

  struct alignas(kCacheLineBytes) Record {
    Doorbell doorbell;
    std::atomic<std::uint32_t> state;         // 0: nobody yet; else 1 + PeerState
    std::atomic<std::uint64_t> heartbeat_ns;  // CLOCK_MONOTONIC, one clock per host
    std::uint64_t process_token;  // tells apart ranks that are threads of one process (tests)
    std::int32_t pid;
    FixedText<64> host;
    FixedText<1024> reason;
  };
  struct alignas(kCacheLineBytes) Header {
    std::array<char, 64> build;  // first in all builds
    std::atomic<std::uint32_t> is_ready;
    std::uint32_t size;
    FixedText<64> sum_tree;
  };

  std::size_t num_bytes() const {
    return sizeof(Header) + static_cast<std::size_t>(count_) * sizeof(Record);
  }

  int end_rank() const { return first_rank_ + count_; }

  void fill() {
    memory_.reserve(rank_, 0, memory_.size());
    // The first byte at last, so that whoever sees it sees all.
    const std::string build = build_name();
    build.copy(header().build.data() + 1, header().build.size() - 2, 1);
    release_fence();
    header().build[0] = build[0];
    header().size = static_cast<std::uint32_t>(count_);
    header().sum_tree.set(sum_tree_);
    header().is_ready.store(1, std::memory_order_release);
  }

  void wait_until(const std::function<bool()>& is_reached,
                  const std::function<std::vector<int>()>& awaited,
                  const std::function<std::string(double)>& complaint, const char* remedy,
                  const Deadline& deadline) {
    const PolledWait wait{.rank = rank_,
                          .deadline = deadline,
                          .stall_report_s = start_report_s_,
                          .complaint = complaint,
                          .remedy = remedy_for_absent_ranks(remedy)};
    poll_until(wait, [&] {
      if (is_reached()) return true;
      ended_.require_running(awaited);
      return false;
    });
  }

  void open(const Deadline& deadline) {
    const auto complaint = [this](double waited_s) {
      return text("has waited for rank ", first_rank_, " to open the job '", name_, "' for ",
                  waited_s, " s.", places_of({first_rank_}));
    };
    wait_until([this] { return try_open(); }, [this] { return std::vector<int>{first_rank_}; },
               complaint,
               "Check that it was started with the same TNT_JOB_ID on this host"
               " and calls tnt_comm.init() (TNT_TIMEOUT_S).",
               deadline);
    const std::string of_first = header().sum_tree.get();
    if (sum_tree_ == of_first) return;
    throw UsageError("The environments of the ranks contradict each other: rank ", rank_,
                     " has TNT_SUM_TREE=", sum_tree_, ", but rank ", first_rank_, " has ", of_first,
                     ". All ranks must be started by one launch.");
  }

  bool try_open() {
    // Before it is mapped, since another build may lay it out in another way.
    const std::string build = SharedMemory::beginning_of(name_, sizeof(Header::build));
    if (build.empty()) return false;
    if (build != build_name()) {
      throw Error(ErrorKind::mismatch, "The ranks of this host run different builds: rank ",
                  first_rank_, " has ", build, ", and rank ", rank_, " has ", build_name(),
                  ". Start all with the same Python environment.");
    }
    return SharedMemory::try_open(name_, num_bytes(), memory_) &&
           header().is_ready.load(std::memory_order_acquire) != 0;
  }

  void join() {
    Record& own = record(rank_);
    std::uint32_t nobody = 0;
    const bool is_first = own.state.compare_exchange_strong(nobody, encode(PeerState::starting));
    if (!is_first || !try_lock_byte(memory_.descriptor(), rank_ - first_rank_)) {
      throw Error(ErrorKind::comm, "rank ", rank_, ": another process has joined job '", name_,
                  "' as rank ", rank_,
                  " already. Every process needs its own TNT_RANK, every job its own"
                  " TNT_JOB_ID.");
    }
    own.host.set(host_name());
    own.pid = ::getpid();
    own.process_token = this_process_token();
    beat();
    own.state.store(encode(PeerState::running), std::memory_order_release);
  }

  void wait_for_all(const Deadline& deadline) {
    const auto complaint = [this](double waited_s) {
      return text("init() has waited ", waited_s, " s: ", names_of_ranks(absent_ranks()), " of ",
                  count_, " did not join.", places_of(absent_ranks()));
    };
    wait_until([this] { return absent_ranks().empty(); }, [this] { return absent_ranks(); },
               complaint,
               "Check that all ranks were started and call tnt_comm.init()"
               " (TNT_TIMEOUT_S).",
               deadline);
  }

  std::vector<int> absent_ranks() const {
    std::vector<int> result;
    for (int rank = first_rank_; rank < end_rank(); ++rank) {
      const std::uint32_t state = record(rank).state.load(std::memory_order_acquire);
      if (state < encode(PeerState::running)) result.push_back(rank);
    }
    return result;
  }

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }

  Record& record(int rank) const {
    auto* records = reinterpret_cast<Record*>(memory_.data() + sizeof(Header));
    return records[rank - first_rank_];
  }

  bool is_alive(const Record& record, int rank) const {
    // A process does not see its own locks: ranks that are its threads live as long as it does.
    return record.process_token == this_process_token() ||
           is_byte_locked_by_other(memory_.descriptor(), rank - first_rank_);
  }

  std::string name_;
  int rank_;
  int first_rank_;
  int count_;
  double stall_report_s_;
  double start_report_s_;
  std::string sum_tree_;
  EndedRanks ended_;
  SharedMemory memory_;  // keeps its descriptor: it carries the liveness lock
  std::atomic<bool> has_left_{false};
};

}  // namespace tnt::comm
