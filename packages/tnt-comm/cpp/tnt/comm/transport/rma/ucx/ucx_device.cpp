#include "tnt/comm/transport/rma/ucx/ucx_device.hpp"

#include <poll.h>

#include <new>
#include <optional>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"

namespace tnt::comm {
namespace {

constexpr int kWaitMs = 100;
constexpr auto kGreetingInterval = std::chrono::microseconds(200);
constexpr std::int64_t kProgressIntervalNs = 2'000;
constexpr std::int64_t kAttendedNs = 500'000;  // since somebody has looked for a notification
constexpr int kMostLooks = 16;                 // each takes as much as one receive buffer holds
constexpr const char* kRdma = "rdma";

// What a rank tells the others: lines, and its address.
struct RecordOfRank {
  std::string version, host;
  bool has_rdma = false;
  std::string address;
};

std::string text_of(const RecordOfRank& record) {
  return text(record.version, '\n', record.host, '\n', record.has_rdma ? kRdma : "", '\n') +
         record.address;
}

RecordOfRank read_record(const std::string& record) {
  std::size_t begin = 0;
  const auto next_line = [&] {
    const std::size_t end = record.find('\n', begin);
    return record.substr(std::exchange(begin, end + 1), end - begin);
  };
  RecordOfRank result;
  result.version = next_line();
  result.host = next_line();
  result.has_rdma = next_line() == kRdma;
  result.address = record.substr(begin);
  return result;
}

}  // namespace

UcxDevice::UcxDevice(UcxLibrary library, BootstrapPlace place, RdmaUse rdma,
                     const Deadline& deadline)
    : rank_(place.rank),
      size_(place.size),
      bootstrap_(start_bootstrap(std::move(place), deadline)),
      network_(choose_network(rdma, bootstrap_->interface().name,
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
  connect_all(bootstrap_->exchange(text_of(own)));
  greet_all(deadline);
  thread_ = start_without_signals("tnt-comm-ucx", [this] { look_after_worker(); });
}

UcxDevice::~UcxDevice() {
  is_stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  worker_.reset();  // before the memory of the segments
}

void UcxDevice::connect_all(const std::vector<std::string>& records) {
  const std::string own = worker_->library().version;
  for (int rank = 0; rank < size_; ++rank) {
    const RecordOfRank record = read_record(records[static_cast<std::size_t>(rank)]);
    if (record.version != own) {
      throw Error(ErrorKind::usage,
                  text("rank ", rank_, " has UCX ", own, " ('", worker_->library().path,
                       "'), but rank ", rank, " (host ", record.host, ") has UCX ", record.version,
                       ", and versions may not understand each other. Install one everywhere, or"
                       " set TNT_UCX_LIBRARY."));
    }
    peers_.push_back({record.host, record.has_rdma});
    if (rank != rank_) worker_->connect(rank, record.address);
  }
}

// So that all connections are there, in both directions, before anything needs them.
void UcxDevice::greet_all(const Deadline& deadline) {
  for (int distance = 1; distance < size_; ++distance) sender_.greet((rank_ + distance) % size_);
  for (std::string missing = missing_greetings(); !missing.empty(); missing = missing_greetings()) {
    if (deadline.is_over() || !failed_ranks().empty()) {
      const bool is_late = deadline.is_over();
      throw Error(is_late ? ErrorKind::timeout : ErrorKind::peer_lost,
                  text("rank ", rank_, " could not be connected with ", missing, " by ", name(),
                       is_late ? text(" within ", deadline.timeout_s(), " s")
                               : std::string(": a connection was refused or has ended"),
                       ". Are all hosts on one network, and is it the right one (TNT_INTERFACE)?"));
    }
    check_interrupt();
    if (!worker_->progress()) std::this_thread::sleep_for(kGreetingInterval);
  }
}

std::string UcxDevice::missing_greetings() const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !receiver_.has_greeted(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return {};
  return names_of_ranks(missing, [&](int rank) {
    return text(rank, " (host ", peers_[static_cast<std::size_t>(rank)].host, ")");
  });
}

std::byte* UcxDevice::allocate(SegmentId segment, std::size_t num_bytes) {
  try {
    return segments_.allocate(segment, num_bytes).data;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::comm,
                text("rank ", rank_, ": no memory for a segment of ", num_bytes, " bytes."));
  }
}

// Who could still put into the segment has been given up by the callers, but may be alive, behind a
// broken link. An adapter refuses puts by a key that is not valid any more, and ends the connection
// with whoever tries; where UCX emulates puts, nothing protects the memory.
void UcxDevice::release(SegmentId segment) {
  const auto released = segments_.take_out(segment);
  if (released && released->registered) worker_->deregister(*released->registered);
}

void UcxDevice::introduce(SegmentId segment, int rank, const Deadline& /*deadline*/) {
  if (!network_.has_rdma || !peers_[static_cast<std::size_t>(rank)].has_rdma) return;
  UcxSegment& introduced = segments_.at(segment);
  if (!introduced.registered) register_segment(introduced);
  // Without a key as well: the rank may have that of a former segment of this number.
  const std::string key = introduced.registered ? introduced.registered->remote_key : "";
  sender_.send_key(rank, segment, RemoteKeys::message_of(introduced.data, key));
}

void UcxDevice::register_segment(UcxSegment& segment) {
  segment.registered = worker_->register_memory(segment.data, segment.num_bytes);
  if (segment.registered || has_warned_.exchange(true)) return;
  log_warning(rank_, text("UCX could not register a segment of ", segment.num_bytes,
                          " bytes for RDMA. What others send there goes in messages, which is"
                          " slower. Raise the limit of locked memory (ulimit -l)."));
}

void UcxDevice::introduce_to_all(SegmentId /*segment*/) {
  bootstrap_->barrier();  // from now on all have it; its messages are too short to be put
  bootstrap_.reset();
  keep_new_sockets_from_children(sockets_before_);
}

void UcxDevice::write(const RmaWrite& request, int queue) {
  const UcxSegment& from = segments_.at(request.from_segment);
  sender_.write(request, reinterpret_cast<const char*>(from.data + request.from),
                from.registered ? from.registered->handle : nullptr, queue);
}

void UcxDevice::notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                       int queue) {
  sender_.notify(rank, to_segment, slot, value, queue);
}

void UcxDevice::notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                             int queue) {
  sender_.notify_later(rank, to_segment, slot, value, queue);
}

void UcxDevice::flush(int queue) {
  sender_.flush(queue);
}

bool UcxDevice::redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                         std::byte* target) {
  if (network_.has_rdma) return false;
  segments_.redirect(segment, to, num_bytes, target);
  return true;
}

void UcxDevice::end_redirect(SegmentId segment, std::size_t to) {
  segments_.end_redirect(segment, to);
}

std::uint32_t UcxDevice::take_notification(SegmentId segment, std::size_t slot) {
  std::atomic<std::uint32_t>& word = segments_.at(segment).notifications[slot];
  if (word.load(std::memory_order_relaxed) == 0) {
    // Whoever waits for it looks for it here; the thread of this object may be asleep.
    const std::int64_t now = now_ns();
    std::int64_t next = next_progress_ns_.load(std::memory_order_relaxed);
    if (now < next || !next_progress_ns_.compare_exchange_strong(next, now + kProgressIntervalNs)) {
      return 0;
    }
    for (int look = 0; look < kMostLooks && worker_->try_progress(); ++look) {
    }
    if (word.load(std::memory_order_relaxed) == 0) return 0;
  }
  return word.exchange(0, std::memory_order_acquire);
}

std::size_t UcxDevice::num_queued(int queue) const {
  return queues_.num_queued[static_cast<std::size_t>(queue)].load();
}

QueueState UcxDevice::drain(int queue) {
  flush(queue);
  worker_->try_progress();
  // The queues stay usable: which rank has failed is known, and no other one is concerned.
  if (queue == 0 && has_new_failure_.exchange(false)) return QueueState::failed;
  return num_queued(queue) == 0 ? QueueState::idle : QueueState::busy;
}

std::vector<int> UcxDevice::failed_ranks() const {
  const std::lock_guard lock(failed_mutex_);
  return failed_;
}

std::unique_ptr<HostProbe> UcxDevice::probe_of_host(int rank) const {
  const std::string& host = peers_[static_cast<std::size_t>(rank)].host;
  constexpr int kUnusedPort = 1;
  const auto addresses = addresses_of(host);
  if (addresses.empty()) return nullptr;
  return std::make_unique<TcpHostProbe>(host, addresses[0].with_port(kUnusedPort));
}

// While somebody who waits lets messages go on, this thread would only take the lock and a core.
void UcxDevice::look_after_worker() {
  while (!is_stopping_.load()) {
    if (now_ns() < next_progress_ns_.load(std::memory_order_relaxed) + kAttendedNs) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kAttendedNs));
      continue;
    }
    if (worker_->progress() || !worker_->arm()) continue;
    pollfd event{worker_->descriptor(), POLLIN, 0};
    ::poll(&event, 1, kWaitMs);
  }
}

}  // namespace tnt::comm
