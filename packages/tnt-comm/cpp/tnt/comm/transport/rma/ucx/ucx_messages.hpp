#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

namespace tnt::comm {

/// A piece of data, if there is any, and behind it a notification, if it is of that kind. Trivially
/// copyable: it travels as is.
struct UcxPart {
  enum class Kind : std::uint8_t {
    greeting,
    piece,         ///< data for a segment
    notification,  ///< and a piece, if there is data
    key,           ///< the data is the remote key of a segment of the sender; counts as a piece
  };

  Kind kind = Kind::greeting;
  SegmentId to_segment = 0;     ///< of the piece; of a key, the sender's
  SegmentId segment = 0;        ///< of the notification
  std::uint8_t data_bytes = 0;  ///< that follow in the row; data of the last part may go apart
  std::uint32_t sender = 0;
  std::uint64_t number = 0;  ///< of the notification, or of the next one
  std::uint64_t offset = 0;  ///< of the piece
  std::uint32_t slot = 0;    ///< of the notification
  std::uint32_t value = 0;
  std::uint64_t num_pieces = 0;  ///< since the notification before, that of this part included
};
static_assert(std::is_trivially_copyable_v<UcxPart> && sizeof(UcxPart) == 40);

/// The parts of a message.
struct UcxRow {
  void append(const UcxPart& part, std::string_view data) {
    UcxPart& copy = *::new (bytes.data() + size) UcxPart(part);
    copy.data_bytes = static_cast<std::uint8_t>(data.size());
    size += sizeof copy;
    std::copy(data.begin(), data.end(), bytes.data() + size);  // also of none, unlike memcpy()
    size += data.size();
  }
  bool has_room_for(std::size_t num_bytes) const { return size + num_bytes <= bytes.size(); }
  std::string_view view() const { return {bytes.data(), size}; }

  std::array<char, 512> bytes;
  std::size_t size = 0;
};

/// What comes from other ranks: puts data where it belongs, and shows notifications when all that
/// was sent before them is there. Thread-safe.
class UcxReceiver {
 public:
  UcxReceiver(int size, UcxSegments& segments)
      : segments_(segments), senders_(static_cast<std::size_t>(size)) {}

  /// A message; `data` is of its last part. Keys go where the caller wants them.
  void take(std::string_view row, std::string_view data, RemoteKeys& keys) {
    const std::lock_guard lock(mutex_);
    while (row.size() >= sizeof(UcxPart)) {
      UcxPart part;
      std::memcpy(&part, row.data(), sizeof part);
      row.remove_prefix(sizeof part);
      if (part.data_bytes > row.size()) return;
      take_part(part, row.empty() ? data : row.substr(0, part.data_bytes), keys);
      row.remove_prefix(part.data_bytes);
    }
  }

  bool has_greeted(int rank) const {
    const std::lock_guard lock(mutex_);
    return at(senders_, rank).has_greeted;
  }

 private:
  /// One other rank.
  struct Sender {
    bool has_greeted = false;
    std::uint64_t num_delivered = 0;                    ///< notifications
    std::map<std::uint64_t, std::uint64_t> num_pieces;  ///< by number of the next notification
    std::map<std::uint64_t, UcxPart> held;              ///< notifications that came too early
  };

  void take_part(const UcxPart& part, std::string_view data, RemoteKeys& keys) {
    if (part.sender >= senders_.size()) return;
    Sender& sender = senders_[part.sender];
    constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 20;
    if (part.number - sender.num_delivered > kMostAhead) return;  // of no rank of the job
    if (part.kind == UcxPart::Kind::greeting) sender.has_greeted = true;
    if (!data.empty()) {
      if (part.kind == UcxPart::Kind::key) {
        keys.note(static_cast<int>(part.sender), part.to_segment, data);
      } else {
        segments_.put_down(part.to_segment, part.offset, data);
      }
      ++sender.num_pieces[part.number];
    }
    if (part.kind == UcxPart::Kind::notification) sender.held.emplace(part.number, part);
    deliver(sender);
  }

  // The notifications that are next, as far as all that was sent before them is there.
  void deliver(Sender& sender) {
    for (auto next = sender.held.begin(); next != sender.held.end();
         next = sender.held.erase(next)) {
      const UcxPart& part = next->second;
      if (part.number != sender.num_delivered) return;
      const auto pieces = sender.num_pieces.find(part.number);
      const std::uint64_t num_pieces = pieces == sender.num_pieces.end() ? 0 : pieces->second;
      if (num_pieces != part.num_pieces) return;
      if (pieces != sender.num_pieces.end()) sender.num_pieces.erase(pieces);
      ++sender.num_delivered;
      segments_.notify(part.segment, part.slot, part.value);
    }
  }

  UcxSegments& segments_;
  mutable std::mutex mutex_;
  std::vector<Sender> senders_;
};

/// What the queues of a rank hold: requests that are not complete, and those that wait for others.
struct UcxQueues {
  static constexpr int kNum = 9;
  using Counts = std::array<std::atomic<std::size_t>, kNum>;

  Counts num_queued{};
  Counts num_waiting{};
};

/// What goes to other ranks: writes, as pieces in messages or as puts, and notifications, which
/// leave together where they may. See UcxDevice for how they are ordered. Thread-safe.
class UcxSender {
 public:
  /// Shorter writes are pieces: a put has to be flushed before the notification behind it can
  /// leave, which takes a round trip.
  static constexpr std::size_t kLeastPutBytes = 16 * 1024;

  /// `queues` must stay until the worker has ended. `has_rdma`: writes into segments whose key is
  /// known are puts.
  UcxSender(UcxWorker& worker, UcxQueues& queues, int rank, int size, bool has_rdma)
      : worker_(worker),
        queues_(queues),
        rank_(rank),
        has_rdma_(has_rdma),
        receivers_(static_cast<std::size_t>(size)) {}

  void greet(int rank) {
    UcxRow row;
    row.append(part_of(UcxPart::Kind::greeting), {});
    worker_.send(rank, message_of(begin_message(row, 0)));
  }

  /// Tells the key of a segment of this rank; `message` is one of RemoteKeys. It is there before
  /// the notifications that follow.
  void send_key(int rank, SegmentId segment, const std::string& message) {
    const std::lock_guard lock(mutex_);
    Receiver& receiver = at(receivers_, rank);
    UcxPart part = part_of(UcxPart::Kind::key);
    part.to_segment = segment;
    part.number = receiver.num_notifications;
    ++receiver.num_pieces;
    UcxRow row;
    row.append(part, {});
    Posted& posted = begin_message(row, 0);
    posted.data = message;
    worker_.send(rank, message_of(posted));
  }

  /// `source`: the data, in memory that may be registered.
  void write(const RmaWrite& request, const char* source, ucx::Memory source_memory, int queue) {
    const std::lock_guard lock(mutex_);
    Receiver& receiver = receiver_for(request.rank, queue);
    const bool is_put = has_rdma_ && request.num_bytes >= kLeastPutBytes &&
                        put(receiver, request, {source, request.num_bytes}, source_memory);
    if (!is_put) write_pieces(receiver, request, source);
  }

  /// See RmaDevice. `may_wait`: for the next request to that rank.
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value, int queue,
              bool may_wait) {
    const std::lock_guard lock(mutex_);
    Receiver& receiver = receiver_for(rank, queue);
    add_notification(receiver, to_segment, slot, value);
    if (may_wait) return let_last_wait(rank, receiver);
    post_waiting(rank, receiver);
  }

  void flush(int queue) {
    if (at(queues_.num_waiting, queue).load() == 0) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 0; rank < receivers_.size(); ++rank) {
      Receiver& receiver = receivers_[rank];
      if (receiver.queue == queue) post_waiting(static_cast<int>(rank), receiver);
    }
  }

 private:
  /// One other rank.
  struct Receiver {
    std::uint64_t num_notifications = 0;
    std::uint64_t num_pieces = 0;  ///< since the last one
    bool has_puts = false;         ///< since the last one that has left
    // What has not been sent yet: a row, and behind it one more part.
    UcxRow row;
    std::optional<UcxPart> last;
    std::string_view last_data;
    std::size_t num_waiting = 0;    ///< parts
    bool has_notification = false;  ///< among them
    int queue = 0;                  ///< theirs
  };

  /// A message that UCX has got.
  struct Posted {
    std::atomic<std::size_t>* num_queued;
    void (*free_request)(void*);  // the worker may be about to end
    UcxRow row;
    std::string data;  // of a key, which nobody else keeps
  };

  UcxPart part_of(UcxPart::Kind kind) const {
    UcxPart part;
    part.kind = kind;
    part.sender = static_cast<std::uint32_t>(rank_);
    return part;
  }

  // What waits for another queue goes first.
  Receiver& receiver_for(int rank, int queue) {
    Receiver& receiver = at(receivers_, rank);
    if (receiver.queue != queue) post_waiting(rank, receiver);
    receiver.queue = queue;
    return receiver;
  }

  bool put(Receiver& receiver, const RmaWrite& request, std::string_view source,
           ucx::Memory source_memory) {
    auto& num_queued = at(queues_.num_queued, receiver.queue);
    UcxWorker::Put put;
    put.source = source;
    put.source_memory = source_memory;
    put.to_segment = request.to_segment;
    put.to = request.to;
    put.user_data = &num_queued;
    put.on_done = [](void* /*request*/, ucx::Status /*status*/, void* count) {
      static_cast<std::atomic<std::size_t>*>(count)->fetch_sub(1);
    };
    num_queued.fetch_add(1);
    if (!worker_.put(request.rank, put)) {
      num_queued.fetch_sub(1);
      return false;
    }
    post_waiting(request.rank, receiver);  // nothing in it has to wait for this put
    receiver.has_puts = true;
    return true;
  }

  void write_pieces(Receiver& receiver, const RmaWrite& request, const char* source) {
    for (std::size_t done = 0; done < request.num_bytes; done += receiver.last_data.size()) {
      let_last_wait(request.rank, receiver);
      begin_last(receiver, UcxPart::Kind::piece);
      receiver.last->to_segment = request.to_segment;
      receiver.last->offset = request.to + done;
      receiver.last->number = receiver.num_notifications;
      receiver.last_data = {source + done,
                            std::min(request.num_bytes - done, UcxWorker::kMostBytes)};
      ++receiver.num_pieces;
    }
  }

  void begin_last(Receiver& receiver, UcxPart::Kind kind) {
    receiver.last = part_of(kind);
    ++receiver.num_waiting;
    at(queues_.num_queued, receiver.queue).fetch_add(1);
    at(queues_.num_waiting, receiver.queue).fetch_add(1);
  }

  // Behind the last piece if there is one that has none.
  void add_notification(Receiver& receiver, SegmentId to_segment, std::size_t slot,
                        std::uint32_t value) {
    if (!receiver.last) begin_last(receiver, UcxPart::Kind::notification);
    UcxPart& part = *receiver.last;
    part.kind = UcxPart::Kind::notification;
    part.segment = to_segment;
    part.slot = static_cast<std::uint32_t>(slot);
    part.value = value;
    part.number = receiver.num_notifications++;
    part.num_pieces = std::exchange(receiver.num_pieces, 0);
    receiver.has_notification = true;
  }

  // In the row, if it has room for it and for one that is to follow; else all is sent.
  void let_last_wait(int rank, Receiver& receiver) {
    constexpr std::size_t kMostDataInRow = 64;
    if (!receiver.last) return;
    const std::string_view data = receiver.last_data;
    if (data.size() > kMostDataInRow ||
        !receiver.row.has_room_for(2 * sizeof(UcxPart) + data.size())) {
      return post_waiting(rank, receiver);
    }
    receiver.row.append(*std::exchange(receiver.last, std::nullopt),
                        std::exchange(receiver.last_data, {}));
  }

  void post_waiting(int rank, Receiver& receiver) {
    const std::size_t num_waiting = std::exchange(receiver.num_waiting, 0);
    if (num_waiting == 0) return;
    if (receiver.last) receiver.row.append(*std::exchange(receiver.last, std::nullopt), {});
    UcxWorker::Message message = message_of(begin_message(receiver.row, receiver.queue));
    message.data = std::exchange(receiver.last_data, {});
    if (std::exchange(receiver.has_notification, false) &&
        std::exchange(receiver.has_puts, false)) {
      worker_.send_behind_puts(rank, message);
    } else {
      worker_.send(rank, message);
    }
    receiver.row.size = 0;
    // They count as a message now.
    at(queues_.num_waiting, receiver.queue).fetch_sub(num_waiting);
    at(queues_.num_queued, receiver.queue).fetch_sub(num_waiting);
  }

  UcxWorker::Message message_of(Posted& posted) {
    UcxWorker::Message message;
    message.header = posted.row.view();
    message.data = posted.data;
    message.user_data = &posted;
    message.on_sent = [](void* request, ucx::Status /*status*/, void* user_data) {
      const std::unique_ptr<Posted> sent(static_cast<Posted*>(user_data));
      sent->num_queued->fetch_sub(1);
      if (request != nullptr) sent->free_request(request);
    };
    return message;
  }

  Posted& begin_message(const UcxRow& row, int queue) {
    auto& num_queued = at(queues_.num_queued, queue);
    num_queued.fetch_add(1);
    return *new Posted{&num_queued, worker_.library().functions.request_free, row, {}};
  }

  UcxWorker& worker_;
  UcxQueues& queues_;
  int rank_;
  bool has_rdma_;
  std::mutex mutex_;
  std::vector<Receiver> receivers_;
};

}  // namespace tnt::comm
