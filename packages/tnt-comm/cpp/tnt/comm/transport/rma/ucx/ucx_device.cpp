#include "tnt/comm/transport/rma/ucx/ucx_device.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/rma/presence.hpp"

namespace tnt::comm {
namespace {

constexpr int kWaitMs = 100;
constexpr auto kGreetingInterval = std::chrono::microseconds(200);
constexpr std::int64_t kProgressIntervalNs = 2'000;
constexpr std::int64_t kAttendedNs = 500'000;  // since somebody has looked for a notification
constexpr int kMostLooks = 16;                 // each takes as much as one receive buffer holds
constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 20;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostDataInRow = 64;

// What a rank tells the others: version, host and address, with lengths of the first two.
std::string record_of(const std::string& version, const std::string& host,
                      const std::string& address) {
  return text(version, '\n', host, '\n') + address;
}

struct RecordOfRank {
  std::string version, host, address;
};

RecordOfRank read_record(const std::string& record) {
  const std::size_t first = record.find('\n');
  const std::size_t second = record.find('\n', first + 1);
  return {record.substr(0, first), record.substr(first + 1, second - first - 1),
          record.substr(second + 1)};
}

}  // namespace

struct UcxDevice::Memory {
  explicit Memory(std::size_t wanted)
      : num_bytes((wanted + kAlignment - 1) / kAlignment * kAlignment),
        data(static_cast<std::byte*>(std::aligned_alloc(kAlignment, num_bytes))),
        notifications(static_cast<std::atomic<std::uint32_t>*>(
            std::calloc(kNumNotifications, sizeof(std::atomic<std::uint32_t>)))) {
    if (data == nullptr || notifications == nullptr) {
      std::free(data);
      std::free(notifications);
      throw std::bad_alloc();
    }
    std::memset(data, 0, num_bytes);
  }
  ~Memory() {
    std::free(data);
    std::free(notifications);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  struct Redirection {
    std::size_t begin;
    std::size_t end;
    std::byte* target;
  };

  std::size_t num_bytes;
  std::byte* data;
  std::atomic<std::uint32_t>* notifications;  // zeroed pages, used as they are touched
  std::vector<Redirection> redirections;      // few; under incoming_mutex_
};

UcxDevice::UcxDevice(UcxLibrary library, BootstrapPlace place, const Deadline& deadline)
    : rank_(place.rank),
      size_(place.size),
      bootstrap_(start_bootstrap(std::move(place), deadline)),
      incoming_(static_cast<std::size_t>(size_)),
      outgoing_(static_cast<std::size_t>(size_)),
      worker_(std::make_unique<UcxWorker>(std::move(library), rank_, size_,
                                          bootstrap_->interface().name)) {
  static_assert(std::is_trivially_copyable_v<Part> && sizeof(Part) == 40);
  worker_->set_handlers([this](std::string_view row, std::string_view data) { take(row, data); },
                        [this](int rank) {
                          const std::lock_guard lock(failed_mutex_);
                          failed_.push_back(rank);
                          has_new_failure_.store(true);
                        });
  const std::string own = record_of(worker_->library().version,
                                    bootstrap_->interface().address.host(), worker_->address());
  connect_all(bootstrap_->exchange(own));
  greet_all(deadline);
  thread_ = start_without_signals("tnt-comm-ucx", [this] { look_after_worker(); });
}

UcxDevice::~UcxDevice() {
  is_stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  worker_.reset();
  for (auto& segment : segments_) delete segment.load();
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
    hosts_.push_back(record.host);
    if (rank != rank_) worker_->connect(rank, record.address);
  }
}

// So that all connections are there, in both directions, before anything needs them.
void UcxDevice::greet_all(const Deadline& deadline) {
  Row greeting;
  greeting.append(part_of(Kind::greeting), {});
  for (int distance = 1; distance < size_; ++distance) {
    post((rank_ + distance) % size_, greeting, {}, 0);
  }
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

std::string UcxDevice::missing_greetings() {
  const std::lock_guard lock(incoming_mutex_);
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !incoming_[static_cast<std::size_t>(rank)].has_greeted) {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) return {};
  return names_of_ranks(missing, [&](int rank) {
    return text(rank, " (host ", hosts_[static_cast<std::size_t>(rank)], ")");
  });
}

std::byte* UcxDevice::allocate(SegmentId segment, std::size_t num_bytes) {
  try {
    auto memory = std::make_unique<Memory>(num_bytes);
    std::byte* data = memory->data;
    segments_[segment].store(memory.release(), std::memory_order_release);
    return data;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::comm,
                text("rank ", rank_, ": no memory for a segment of ", num_bytes, " bytes."));
  }
}

void UcxDevice::release(SegmentId segment) {
  const std::lock_guard lock(incoming_mutex_);
  delete segments_[segment].exchange(nullptr);
}

void UcxDevice::introduce_to_all(SegmentId /*segment*/) {
  bootstrap_->barrier();  // from now on all have it
  bootstrap_.reset();
  keep_new_sockets_from_children(sockets_before_);
}

UcxDevice::Part UcxDevice::part_of(Kind kind) const {
  Part part;
  part.kind = kind;
  part.sender = static_cast<std::uint32_t>(rank_);
  return part;
}

void UcxDevice::write(const RmaWrite& request, int queue) {
  const Memory& memory = *segments_[request.from_segment].load(std::memory_order_acquire);
  const auto* data = reinterpret_cast<const char*>(memory.data + request.from);
  const std::lock_guard lock(outgoing_mutex_);
  Outgoing& outgoing = outgoing_to(request.rank, queue);
  for (std::size_t done = 0; done < request.num_bytes; done += outgoing.last_data.size()) {
    let_last_wait(request.rank, outgoing);
    begin_last(outgoing, Kind::piece);
    outgoing.last->to_segment = request.to_segment;
    outgoing.last->offset = request.to + done;
    outgoing.last->number = outgoing.num_notifications;
    outgoing.last_data = {data + done, std::min(request.num_bytes - done, UcxWorker::kMostBytes)};
    ++outgoing.num_pieces;
  }
}

void UcxDevice::notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                       int queue) {
  const std::lock_guard lock(outgoing_mutex_);
  Outgoing& outgoing = outgoing_to(rank, queue);
  add_notification(outgoing, to_segment, slot, value);
  post_waiting(rank, outgoing);
}

void UcxDevice::notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                             int queue) {
  const std::lock_guard lock(outgoing_mutex_);
  Outgoing& outgoing = outgoing_to(rank, queue);
  add_notification(outgoing, to_segment, slot, value);
  let_last_wait(rank, outgoing);
}

void UcxDevice::flush(int queue) {
  if (num_waiting_[static_cast<std::size_t>(queue)].load() == 0) return;
  const std::lock_guard lock(outgoing_mutex_);
  for (int rank = 0; rank < size_; ++rank) {
    Outgoing& outgoing = outgoing_[static_cast<std::size_t>(rank)];
    if (outgoing.queue == queue) post_waiting(rank, outgoing);
  }
}

// What waits for another queue goes first.
UcxDevice::Outgoing& UcxDevice::outgoing_to(int rank, int queue) {
  Outgoing& outgoing = outgoing_[static_cast<std::size_t>(rank)];
  if (outgoing.queue != queue) post_waiting(rank, outgoing);
  outgoing.queue = queue;
  return outgoing;
}

void UcxDevice::begin_last(Outgoing& outgoing, Kind kind) {
  outgoing.last = part_of(kind);
  ++outgoing.num_waiting;
  num_queued_[static_cast<std::size_t>(outgoing.queue)].fetch_add(1);
  num_waiting_[static_cast<std::size_t>(outgoing.queue)].fetch_add(1);
}

// Behind the last piece if there is one that has none.
void UcxDevice::add_notification(Outgoing& outgoing, SegmentId to_segment, std::size_t slot,
                                 std::uint32_t value) {
  if (!outgoing.last) begin_last(outgoing, Kind::notification);
  Part& part = *outgoing.last;
  part.kind = Kind::notification;
  part.segment = to_segment;
  part.slot = static_cast<std::uint32_t>(slot);
  part.value = value;
  part.number = outgoing.num_notifications++;
  part.num_pieces = std::exchange(outgoing.num_pieces, 0);
}

// In the row, if it has room for it and for one that is to follow; else all is sent.
void UcxDevice::let_last_wait(int rank, Outgoing& outgoing) {
  if (!outgoing.last) return;
  Row& row = outgoing.row;
  const std::string_view data = outgoing.last_data;
  if (data.size() > kMostDataInRow ||
      row.size + 2 * sizeof(Part) + data.size() > row.bytes.size()) {
    return post_waiting(rank, outgoing);
  }
  row.append(*std::exchange(outgoing.last, std::nullopt), std::exchange(outgoing.last_data, {}));
}

void UcxDevice::Row::append(const Part& part, std::string_view data) {
  Part& copy = *::new (bytes.data() + size) Part(part);
  copy.data_bytes = static_cast<std::uint8_t>(data.size());
  size += sizeof copy;
  std::memcpy(bytes.data() + size, data.data(), data.size());
  size += data.size();
}

void UcxDevice::post_waiting(int rank, Outgoing& outgoing) {
  const std::size_t num_waiting = std::exchange(outgoing.num_waiting, 0);
  if (num_waiting == 0) return;
  if (outgoing.last) outgoing.row.append(*std::exchange(outgoing.last, std::nullopt), {});
  post(rank, outgoing.row, std::exchange(outgoing.last_data, {}), outgoing.queue);
  outgoing.row.size = 0;
  // They count as a message now.
  num_waiting_[static_cast<std::size_t>(outgoing.queue)].fetch_sub(num_waiting);
  num_queued_[static_cast<std::size_t>(outgoing.queue)].fetch_sub(num_waiting);
}

struct UcxDevice::Posted {
  UcxDevice* device;
  void (*free_request)(void*);  // the worker may be about to end
  int queue;
  Row row;
};

void UcxDevice::post(int rank, const Row& row, std::string_view data, int queue) {
  const auto free_request = worker_->library().functions.request_free;
  auto* posted = new Posted{this, free_request, queue, row};
  num_queued_[static_cast<std::size_t>(queue)].fetch_add(1);
  UcxWorker::Message message;
  message.header = posted->row.view();
  message.data = data;
  message.user_data = posted;
  message.on_sent = [](void* request, ucx::Status /*status*/, void* user_data) {
    const std::unique_ptr<Posted> sent(static_cast<Posted*>(user_data));
    sent->device->num_queued_[static_cast<std::size_t>(sent->queue)].fetch_sub(1);
    if (request != nullptr) sent->free_request(request);
  };
  worker_->send(rank, message);
}

void UcxDevice::take(std::string_view row, std::string_view data) {
  const std::lock_guard lock(incoming_mutex_);
  while (row.size() >= sizeof(Part)) {
    Part part;
    std::memcpy(&part, row.data(), sizeof part);
    row.remove_prefix(sizeof part);
    if (part.data_bytes > row.size()) return;
    take(part, row.empty() ? data : row.substr(0, part.data_bytes));
    row.remove_prefix(part.data_bytes);
  }
}

void UcxDevice::take(const Part& part, std::string_view data) {
  if (part.sender >= static_cast<std::uint32_t>(size_)) return;
  Incoming& incoming = incoming_[part.sender];
  if (part.number - incoming.num_delivered > kMostAhead) return;  // of no rank of the job
  if (part.kind == Kind::greeting) incoming.has_greeted = true;
  if (!data.empty()) {
    put_down(part, data);
    ++incoming.num_pieces[part.number];
  }
  if (part.kind == Kind::notification) incoming.held.emplace(part.number, part);
  deliver(incoming);
}

void UcxDevice::put_down(const Part& part, std::string_view data) {
  if (std::byte* place = place_of(part, data.size())) std::memcpy(place, data.data(), data.size());
}

// Null for a segment that is not there any more: its members have given it up.
std::byte* UcxDevice::place_of(const Part& part, std::size_t num_bytes) const {
  if (part.to_segment >= segments_.size()) return nullptr;
  const Memory* memory = segments_[part.to_segment].load(std::memory_order_acquire);
  if (memory == nullptr || part.offset > memory->num_bytes ||
      num_bytes > memory->num_bytes - part.offset) {
    return nullptr;
  }
  for (const auto& [begin, end, target] : memory->redirections) {
    if (part.offset >= begin && part.offset + num_bytes <= end) {
      return target + (part.offset - begin);
    }
  }
  return memory->data + part.offset;
}

bool UcxDevice::redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                         std::byte* target) {
  const std::lock_guard lock(incoming_mutex_);
  segments_[segment].load()->redirections.push_back({to, to + num_bytes, target});
  return true;
}

void UcxDevice::end_redirect(SegmentId segment, std::size_t to) {
  const std::lock_guard lock(incoming_mutex_);
  std::erase_if(segments_[segment].load()->redirections,
                [&](const Memory::Redirection& each) { return each.begin == to; });
}

// The notifications that are next, as far as all that was sent before them is there.
void UcxDevice::deliver(Incoming& incoming) {
  for (auto next = incoming.held.begin(); next != incoming.held.end();
       next = incoming.held.erase(next)) {
    const Part& part = next->second;
    if (part.number != incoming.num_delivered) return;
    const auto pieces = incoming.num_pieces.find(part.number);
    const std::uint64_t num_pieces = pieces == incoming.num_pieces.end() ? 0 : pieces->second;
    if (num_pieces != part.num_pieces) return;
    if (pieces != incoming.num_pieces.end()) incoming.num_pieces.erase(pieces);
    ++incoming.num_delivered;
    if (part.segment >= segments_.size() || part.slot >= kNumNotifications) continue;
    const Memory* memory = segments_[part.segment].load(std::memory_order_acquire);
    if (memory == nullptr) continue;
    memory->notifications[part.slot].store(part.value, std::memory_order_release);
  }
}

std::uint32_t UcxDevice::take_notification(SegmentId segment, std::size_t slot) {
  std::atomic<std::uint32_t>& word =
      segments_[segment].load(std::memory_order_acquire)->notifications[slot];
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
  return num_queued_[static_cast<std::size_t>(queue)].load();
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
  const std::string& host = hosts_[static_cast<std::size_t>(rank)];
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
