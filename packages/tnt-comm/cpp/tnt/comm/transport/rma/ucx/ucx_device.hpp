#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_messages.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

namespace tnt::comm {

/// Remote writes and notifications through UCX' active messages, and its puts where there is RDMA.
///
/// A write goes in pieces of at most UcxWorker::kMostBytes, which the receiver copies to their
/// place. UCX does not promise that messages arrive in the order in which they were sent: not over
/// several rails, and not in all versions. So notifications from one rank to another are numbered;
/// a piece has the number of the next one, which says how many pieces that are, and is held back
/// until these and the notification before it are there. Nothing else has to be ordered. The last
/// piece of a write waits for the notification behind it, and goes in the same message. A
/// notification that may be late waits for the next message in turn, with its piece if that is
/// short: messages cost a rank more than what is in them.
///
/// With RDMA, a long write is put straight into the segment of the receiver, which does not notice.
/// The next notification to that rank leaves when a flush has told that everything put before is
/// in its memory; later ones need not wait, since the receiver holds them back by number. A rank
/// puts only by the remote key of a segment, which introduce() sends; without one, the write goes
/// in pieces, as to and from ranks without RDMA.
///
/// UCX takes any number of messages. queue_capacity() bounds what is on its way, if callers ask.
class UcxDevice final : public RmaDevice {
 public:
  /// Collective among all ranks, blocking: connects them. Errors as Bootstrap, and CommError if the
  /// ranks have versions of UCX that do not understand each other.
  UcxDevice(UcxLibrary library, BootstrapPlace place, RdmaUse rdma, const Deadline& deadline)
      : rank_(place.rank),
        size_(place.size),
        bootstrap_(start_bootstrap(std::move(place), deadline)),
        network_(
            choose_network(rdma, bootstrap_->interface().name,
                           [&] { return usable_ports(bootstrap_->interface().name, library); })),
        receiver_(size_, segments_),
        worker_(std::make_unique<UcxWorker>(std::move(library), rank_, size_, network_)),
        sender_(*worker_, queues_, rank_, size_, network_.has_rdma) {
    worker_->set_handlers(
        [this, &keys = worker_->remote_keys()](std::string_view row, std::string_view data) {
          receiver_.take(row, data, keys);
        },
        [this](int rank) {
          const std::lock_guard lock(failed_mutex_);
          failed_.push_back(rank);
          has_new_failure_.store(true);
        });
    const RecordOfRank own{worker_->library().version, bootstrap_->interface().address.host(),
                           network_.has_rdma, worker_->address()};
    connect_all(bootstrap_->exchange(own.as_text()));
    greet_all(deadline);
    thread_ = start_without_signals("tnt-comm-ucx", [this] { look_after_worker(); });
  }

  ~UcxDevice() override {
    is_stopping_.store(true);
    if (thread_.joinable()) thread_.join();
    worker_.reset();  // before the memory of the segments
  }

  std::string name() const override { return "UCX " + worker_->library().version; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override {
    try {
      return segments_.allocate(segment, num_bytes).data;
    } catch (const std::bad_alloc&) {
      throw Error(ErrorKind::comm, "rank ", rank_, ": no memory for a segment of ", num_bytes,
                  " bytes.");
    }
  }

  // Who could still put into the segment has been given up by the callers, but may be alive, behind
  // a broken link. An adapter refuses puts by a key that is not valid any more, and ends the
  // connection with whoever tries; where UCX emulates puts, nothing protects the memory.
  void release(SegmentId segment) override {
    const auto released = segments_.take_out(segment);
    if (released && released->registered) worker_->deregister(*released->registered);
  }

  /// Any rank may write into a segment as soon as it knows its number; by RDMA, when it has the
  /// key, which arrives before the notifications that follow.
  void introduce(SegmentId segment, int rank, const Deadline& /*deadline*/) override {
    if (!network_.has_rdma || !at(peers_, rank).has_rdma) return;
    UcxSegment& introduced = segments_.at(segment);
    if (!introduced.registered) register_segment(introduced);
    // Without a key as well: the rank may have that of a former segment of this number.
    const std::string key = introduced.registered ? introduced.registered->remote_key : "";
    sender_.send_key(rank, segment, RemoteKeys::message_of(introduced.data, key));
  }

  void introduce_to_all(SegmentId /*segment*/) override {
    bootstrap_->barrier();  // from now on all have it; its messages are too short to be put
    bootstrap_.reset();
    keep_new_sockets_from_children(sockets_before_);
  }

  void write(const RmaWrite& request, int queue) override {
    const UcxSegment& from = segments_.at(request.from_segment);
    sender_.write(request, reinterpret_cast<const char*>(from.data + request.from),
                  from.registered ? from.registered->handle : nullptr, queue);
  }

  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override {
    sender_.notify(rank, to_segment, slot, value, queue, false);
  }

  void notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                    int queue) override {
    sender_.notify(rank, to_segment, slot, value, queue, true);
  }

  void flush(int queue) override { sender_.flush(queue); }

  /// What is put by RDMA comes by the address of the segment, so with RDMA always false.
  bool redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                std::byte* target) override {
    if (network_.has_rdma) return false;
    segments_.redirect(segment, to, num_bytes, target);
    return true;
  }

  void end_redirect(SegmentId segment, std::size_t to) override {
    segments_.end_redirect(segment, to);
  }

  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override {
    std::atomic<std::uint32_t>& word = segments_.at(segment).notifications[slot];
    if (word.load(std::memory_order_relaxed) == 0) {
      constexpr std::int64_t kProgressIntervalNs = 2'000;
      constexpr int kMostLooks = 16;  // each takes as much as one receive buffer holds
      // Whoever waits for it looks for it here; the thread of this object may be asleep.
      const std::int64_t now = now_ns();
      std::int64_t next = next_progress_ns_.load(std::memory_order_relaxed);
      if (now < next ||
          !next_progress_ns_.compare_exchange_strong(next, now + kProgressIntervalNs)) {
        return 0;
      }
      for (int look = 0; look < kMostLooks && worker_->try_progress(); ++look) {
      }
      if (word.load(std::memory_order_relaxed) == 0) return 0;
    }
    return word.exchange(0, std::memory_order_acquire);
  }

  std::size_t num_notifications() const override { return UcxSegment::kNumNotifications; }
  int num_queues() const override { return UcxQueues::kNum; }
  std::size_t queue_capacity() const override { return kQueueCapacity; }

  std::size_t num_queued(int queue) const override { return at(queues_.num_queued, queue).load(); }

  QueueState drain(int queue) override {
    flush(queue);
    worker_->try_progress();
    // The queues stay usable: which rank has failed is known, and no other one is concerned.
    if (queue == 0 && has_new_failure_.exchange(false)) return QueueState::failed;
    return num_queued(queue) == 0 ? QueueState::idle : QueueState::busy;
  }

  std::vector<int> failed_ranks() const override {
    const std::lock_guard lock(failed_mutex_);
    return failed_;
  }

  std::unique_ptr<HostProbe> probe_of_host(int rank) const override {
    const std::string& host = at(peers_, rank).host;
    constexpr int kUnusedPort = 1;
    const auto addresses = addresses_of(host);
    if (addresses.empty()) return nullptr;
    return std::make_unique<TcpHostProbe>(host, addresses[0].with_port(kUnusedPort));
  }

 private:
  static constexpr std::size_t kQueueCapacity = 4096;
  static constexpr std::int64_t kAttendedNs = 500'000;  // since somebody has looked for one

  // What a rank tells the others: lines, and its address.
  struct RecordOfRank {
    static constexpr const char* kRdma = "rdma";

    static RecordOfRank in(const std::string& record) {
      std::size_t begin = 0;
      const auto next_line = [&] {
        const std::size_t end = record.find('\n', begin);
        std::string line = record.substr(begin, end - begin);
        begin = end + 1;
        return line;
      };
      RecordOfRank result;
      result.version = next_line();
      result.host = next_line();
      result.has_rdma = next_line() == kRdma;
      result.address = record.substr(begin);
      return result;
    }
    std::string as_text() const {
      return text(version, '\n', host, '\n', has_rdma ? kRdma : "", '\n') + address;
    }

    std::string version, host;
    bool has_rdma = false;
    std::string address;
  };

  /// Another rank.
  struct Peer {
    std::string host;  ///< its address
    bool has_rdma = false;
  };

  void connect_all(const std::vector<std::string>& records) {
    const std::string own = worker_->library().version;
    for (int rank = 0; rank < size_; ++rank) {
      const RecordOfRank record = RecordOfRank::in(at(records, rank));
      if (record.version != own) {
        throw Error(ErrorKind::usage, "rank ", rank_, " has UCX ", own, " ('",
                    worker_->library().path, "'), but rank ", rank, " (host ", record.host,
                    ") has UCX ", record.version,
                    ", and versions may not understand each other. Install one everywhere, or"
                    " set TNT_UCX_LIBRARY.");
      }
      peers_.push_back({record.host, record.has_rdma});
      if (rank != rank_) worker_->connect(rank, record.address);
    }
  }

  // So that all connections are there, in both directions, before anything needs them.
  void greet_all(const Deadline& deadline) {
    for (int distance = 1; distance < size_; ++distance) sender_.greet((rank_ + distance) % size_);
    for (std::string missing = missing_greetings(); !missing.empty();
         missing = missing_greetings()) {
      if (deadline.is_over() || !failed_ranks().empty()) {
        const bool is_late = deadline.is_over();
        throw Error(is_late ? ErrorKind::timeout : ErrorKind::peer_lost, "rank ", rank_,
                    " could not connect to ", missing, " over ", name(),
                    is_late ? text(" within ", deadline.timeout_s(), " s")
                            : std::string(": a connection was refused or has ended"),
                    ". Are all hosts on one network, and is it the right one (TNT_INTERFACE)?");
      }
      check_interrupt();
      if (!worker_->progress()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  std::string missing_greetings() const {
    const auto missing = ranks_where(
        size_, [this](int rank) { return rank != rank_ && !receiver_.has_greeted(rank); });
    if (missing.empty()) return {};
    return names_of_ranks(
        missing, [&](int rank) { return text(rank, " (host ", at(peers_, rank).host, ")"); });
  }

  void register_segment(UcxSegment& segment) {
    segment.registered = worker_->register_memory(segment.data, segment.num_bytes);
    if (segment.registered || has_warned_.exchange(true)) return;
    log_warning(rank_, "UCX could not register a segment of ", segment.num_bytes,
                " bytes for RDMA. Data that others send there travels in messages, which is"
                " slower. Raise the limit of locked memory (ulimit -l). [memory-not-registered]");
  }

  // While somebody who waits lets messages go on, this thread would only take the lock and a core.
  void look_after_worker() {
    while (!is_stopping_.load()) {
      if (now_ns() < next_progress_ns_.load(std::memory_order_relaxed) + kAttendedNs) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(kAttendedNs));
        continue;
      }
      if (worker_->progress() || !worker_->arm()) continue;
      pollfd event{worker_->descriptor(), POLLIN, 0};
      ::poll(&event, 1, 100);
    }
  }

  int rank_;
  int size_;
  OpenSockets sockets_before_ = open_sockets();
  std::unique_ptr<Bootstrap> bootstrap_;  // until all are connected
  UcxNetwork network_;
  std::vector<Peer> peers_;
  UcxSegments segments_;
  UcxReceiver receiver_;
  UcxQueues queues_;
  mutable std::mutex failed_mutex_;
  std::vector<int> failed_;
  std::atomic<bool> has_new_failure_{false};
  std::atomic<bool> has_warned_{false};  // of memory that could not be registered
  std::atomic<std::int64_t> next_progress_ns_{0};
  std::atomic<bool> is_stopping_{false};
  std::unique_ptr<UcxWorker> worker_;  // whose handlers use all above
  UcxSender sender_;
  std::thread thread_;
};

}  // namespace tnt::comm
