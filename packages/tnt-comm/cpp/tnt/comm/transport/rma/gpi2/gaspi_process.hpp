#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/start_watch.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// Makes a call of GPI-2 that posts a request, again while it returns that time is over (1).
///
/// That only means that another thread of this process has kept the lock of the queue: nothing was
/// posted, and no other rank has to do with it. The lock is held for microseconds, but in a
/// container whose time on the processor is limited, or in a debugger, its holder may be stopped
/// for longer. So a wait ends when `deadline` does. Returns what the last call returned.
template <typename Call>
int post_when_unlocked(const Deadline& deadline, Call&& call) {
  int status = call();
  while (status == 1 && !deadline.is_over()) status = call();
  return status;
}

/// GASPI through a GPI-2 library: this process as one of its ranks.
///
/// GPI-2 cannot be left and joined again, so there is one per process, and it
/// is never ended: gaspi_proc_term waits for other ranks, and crashes at times
/// when one of them is dead. The kernel closes what it has opened.
class GaspiProcess final : public RmaDevice {
 public:
  /// Collective among all ranks of the job, blocking. Takes a few seconds: GPI-2 measures the clock
  /// of the processor. `addresses`: of all ranks, or none if they are not known.
  GaspiProcess(GaspiLibrary library, const Environment& environment,
               std::vector<RankAddress> addresses, const Deadline& deadline)
      : library_(std::move(library)),
        addresses_(std::move(addresses)),
        rank_(environment.rank),
        size_(environment.size),
        deadline_(deadline),
        sockets_before_(open_sockets()) {
    static std::atomic<bool> was_started{false};
    if (was_started.exchange(true)) {
      throw Error(ErrorKind::comm, "GPI-2 can be started only once in a process.");
    }
    // GPI-2 takes a lack of descriptors for a port that is taken, or waits.
    require_descriptors("GPI-2", rank_, size_);
    require_threads();
    if (environment.gpi2_port != 0) set_gaspi_ports(library_, environment.gpi2_port);
    require_free_ports(library_, environment);
    watch_.emplace(environment, addresses_, first_presence_port(library_), deadline);
    join(environment);
  }

  std::string name() const override { return std::string("GPI-2 ") + library_.layout->name; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override {
    constexpr int kZeroedMemory = 1;  // allocation policy
    // It begins at a page; so nothing else is in its last one.
    const int status =
        functions_.segment_alloc(segment, round_up(num_bytes, page_bytes()), kZeroedMemory);
    if (status != kSuccess) {
      throw Error(ErrorKind::comm, "rank ", rank_, ": gaspi_segment_alloc returned ", status,
                  " for ", num_bytes, " bytes", why_no_memory(status), ".");
    }
    void* pointer = nullptr;
    require_done(rank_, functions_.segment_ptr(segment, &pointer), "gaspi_segment_ptr");
    if (reinterpret_cast<std::uintptr_t>(pointer) % kCacheLineBytes != 0) {
      throw Error(ErrorKind::comm, "GPI-2 gave a segment that is not aligned to 64 bytes.");
    }
    return static_cast<std::byte*>(pointer);
  }

  void release(SegmentId segment) override {
    require_done(rank_, functions_.segment_delete(segment), "gaspi_segment_delete");
  }

  void introduce(SegmentId segment, int rank, const Deadline& deadline) override {
    require_introduced(rank_,
                       functions_.segment_register(segment, static_cast<std::uint16_t>(rank),
                                                   milliseconds_left(deadline)),
                       rank);
  }

  void introduce_to_all(SegmentId segment) override {
    DetachableCall call(
        "tnt-comm-intro", [segment, rank = rank_, size = size_, deadline = deadline_,
                           segment_register = functions_.segment_register] {
          for (int distance = 1; distance < size; ++distance) {
            const int other = (rank + distance) % size;
            require_introduced(rank,
                               segment_register(segment, static_cast<std::uint16_t>(other),
                                                milliseconds_left(deadline)),
                               other);
          }
        });
    if (!watch_->has_returned_in_time(call)) {
      throw Error(ErrorKind::timeout, "rank ", rank_,
                  ": the ranks could not be connected by GPI-2 within ", deadline_.timeout_s(),
                  " s. ", watch_->absence());
    }
    call.get();
    synchronize();
    keep_new_sockets_from_children(sockets_before_);
    watch_.reset();
  }

  void write(const RmaWrite& request, int queue) override {
    const auto call = [&] {
      return functions_.write(request.from_segment, request.from,
                              static_cast<std::uint16_t>(request.rank), request.to_segment,
                              request.to, request.num_bytes, narrow(queue), kLockTime);
    };
    require_done(rank_, post_when_unlocked(Deadline(kLongestLockS), call), "gaspi_write");
  }

  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override {
    const auto call = [&] {
      return functions_.notify(to_segment, static_cast<std::uint16_t>(rank),
                               static_cast<std::uint32_t>(slot), value, narrow(queue), kLockTime);
    };
    require_done(rank_, post_when_unlocked(Deadline(kLongestLockS), call), "gaspi_notify");
  }

  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override {
    const auto id = static_cast<std::uint32_t>(slot);
    std::uint32_t found = 0;  // versions before 1.6 write two of the four bytes
    if (functions_.notify_waitsome(segment, id, 1, &found, kTest) != kSuccess) return 0;
    std::uint32_t value = 0;
    functions_.notify_reset(segment, id, &value);
    acquire_fence();
    return value;
  }

  std::size_t num_notifications() const override { return settings_.num_notifications; }
  int num_queues() const override { return settings_.num_queues; }
  std::size_t queue_capacity() const override { return settings_.queue_capacity; }

  std::size_t num_queued(int queue) const override {
    std::uint32_t count = 0;
    functions_.queue_size(narrow(queue), &count);
    return count;
  }

  QueueState drain(int queue) override {
    if (num_queued(queue) == 0) return QueueState::idle;
    const int status = functions_.wait(narrow(queue), kTest);
    if (status != kSuccess && status != kTimeout) return QueueState::failed;
    return num_queued(queue) == 0 ? QueueState::idle : QueueState::busy;
  }

  std::vector<int> failed_ranks() const override {
    std::vector<int> states(static_cast<std::size_t>(size_));
    if (functions_.state_vec_get(states.data()) != kSuccess) return {};
    return ranks_where(size_, [&](int rank) { return at(states, rank) != 0; });
  }

  // Where a rank shows its presence while it starts: nobody listens there later, and firewalls let
  // it through.
  std::unique_ptr<HostProbe> probe_of_host(int rank) const override {
    if (addresses_.empty()) return nullptr;
    const RankAddress& of_rank = at(addresses_, rank);
    const auto addresses = addresses_of(of_rank.host, AF_INET);
    if (addresses.empty()) return nullptr;
    const int port = first_presence_port(library_) + of_rank.local_rank;
    return std::make_unique<TcpHostProbe>(of_rank.host, addresses[0].with_port(port));
  }

 private:
  using Time = GaspiFunctions::Time;
  static constexpr int kSuccess = 0;
  static constexpr int kTimeout = 1;
  static constexpr Time kTest = 0;
  static constexpr Time kLockTime = 100;  // for one try
  static constexpr double kLongestLockS = 60;

  static std::uint8_t narrow(int queue) { return static_cast<std::uint8_t>(queue); }

  // Only what these functions return, and what helps whoever reads it.
  static const char* meaning_of(int status) {
    constexpr std::pair<int, const char*> kMeanings[] = {
        {kTimeout, "timed out"},
        {2, "too many open files; raise the limit (ulimit -n)"},
        {3, "GASPI_* variables are missing or wrong, or the machine file cannot be read"},
        {21, "too many segments"},
        {23, "queue full"},
        {26,
         "the network device cannot be opened; is another job using its ports? See TNT_GPI2_PORT"},
        {27, "the side channel cannot be opened; is another job using its port? See TNT_GPI2_PORT"},
        {28, "out of memory"}};
    for (const auto& [known, meaning] : kMeanings) {
      if (known == status) return meaning;
    }
    return "error";
  }

  // To follow what was asked for.
  static std::string why_no_memory(int status) {
    if (status == 26) {
      return text(" (the network device does not register them). ",
                  advice_for_limit(RLIMIT_MEMLOCK, "locked memory (ulimit -l)"));
    }
    const std::string meaning = text(" (", meaning_of(status), ")");
    if (status != 28) return meaning;
    return text(meaning, ". ", advice_for_limit(RLIMIT_AS, "address space (ulimit -v)"));
  }

  static Time milliseconds_left(const Deadline& deadline) {
    using std::chrono::milliseconds;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline.end() - Clock::now());
    return static_cast<Time>(std::max<milliseconds::rep>(left.count(), 1));
  }

  // GPI-2 itself may connect to whoever has its port, and wait for an answer.
  static void require_free_ports(const GaspiLibrary& library, const Environment& environment) {
    try {
      for (const int port : ports_to_listen(library, environment.gaspi_socket.value_or(0))) {
        bound_to_port(port);
      }
    } catch (const Error& error) {
      throw Error(ErrorKind::comm, "rank ", environment.rank,
                  ": GPI-2 could not be started, since ", error.what(),
                  "; is another job using its ports? See TNT_GPI2_PORT.");
    }
  }

  // GPI-2 would wait: the error is that of a thread that cannot be started.
  static void require_threads() {
    constexpr std::size_t kThreads = 3;  // at the start
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    std::array<std::optional<DetachableCall>, kThreads> calls;
    for (auto& call : calls) call.emplace("tnt-comm-probe", [ended] { ended.wait(); });
    end.set_value();
    for (auto& call : calls) call->get();
  }

  // What the thread that starts GPI-2 tells the one that waits for it.
  struct Start {
    int status = kTimeout;
    cpu_set_t cores{};  // GPI-2 binds the thread that starts it if it is told to
  };

  static void require_done(int rank, int status, std::string_view what,
                           std::string_view remedy = {}) {
    if (status == kSuccess) return;
    throw Error(status == kTimeout ? ErrorKind::timeout : ErrorKind::comm, "rank ", rank, ": ",
                what, " returned ", status, " (", meaning_of(status), ").", remedy);
  }

  static void require_introduced(int rank, int status, int other) {
    if (status == kSuccess) return;
    require_done(rank, status, text("gaspi_segment_register for rank ", other),
                 text(" Rank ", other, " may have ended: look at its output first."));
  }

  // The start cannot be called off, so a thread makes it that can be left alone.
  void join(const Environment& environment) {
    const auto start = std::make_shared<Start>();
    DetachableCall call("tnt-comm-start",
                        [start, deadline = deadline_, proc_init = functions_.proc_init] {
                          start->status = proc_init(milliseconds_left(deadline));
                          ::sched_getaffinity(0, sizeof start->cores, &start->cores);
                        });
    int status = kTimeout;
    if (watch_->has_returned_in_time(call)) {
      call.get();
      ::sched_setaffinity(0, sizeof start->cores, &start->cores);
      status = start->status;
    }
    if (status == kSuccess) return;
    // Nothing of the library may be called from here on.
    throw Error(status == kTimeout ? ErrorKind::timeout : ErrorKind::comm, "rank ", rank_,
                ": GPI-2 could not be started within ", deadline_.timeout_s(),
                " s: gaspi_proc_init returned ", status, " (", meaning_of(status), "). ",
                watch_->absence(), " The hosts are those in GASPI_MFILE='",
                environment.gaspi_machine_file, "', which rank 0 reads.");
  }

  void synchronize() {
    constexpr std::uint8_t kAllRanks = 0;  // group
    // The barrier spins while it waits, so it gets short turns.
    constexpr Time kTurn = 1;
    int status = functions_.barrier(kAllRanks, kTurn);
    while (status == kTimeout && !deadline_.is_over()) {
      check_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      status = functions_.barrier(kAllRanks, kTurn);
    }
    require_done(rank_, status, "gaspi_barrier",
                 " Another rank may have ended: look at the output of all.");
  }

  GaspiLibrary library_;
  const GaspiFunctions& functions_ = library_.functions;
  GaspiSettings settings_ = read_gaspi_settings(library_);
  std::vector<RankAddress> addresses_;
  int rank_;
  int size_;
  Deadline deadline_;                // of the start
  OpenSockets sockets_before_;       // the start
  std::optional<StartWatch> watch_;  // until all have started
};

}  // namespace tnt::comm
