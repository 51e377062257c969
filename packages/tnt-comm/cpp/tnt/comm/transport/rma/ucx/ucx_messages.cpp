#include "tnt/comm/transport/rma/ucx/ucx_messages.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace tnt::comm {
namespace {

constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 20;

}  // namespace

UcxReceiver::UcxReceiver(int size, UcxSegments& segments)
    : segments_(segments), senders_(static_cast<std::size_t>(size)) {}

bool UcxReceiver::has_greeted(int rank) const {
  const std::lock_guard lock(mutex_);
  return senders_[static_cast<std::size_t>(rank)].has_greeted;
}

void UcxReceiver::take(std::string_view row, std::string_view data, RemoteKeys& keys) {
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

void UcxReceiver::take_part(const UcxPart& part, std::string_view data, RemoteKeys& keys) {
  if (part.sender >= senders_.size()) return;
  Sender& sender = senders_[part.sender];
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
void UcxReceiver::deliver(Sender& sender) {
  for (auto next = sender.held.begin(); next != sender.held.end(); next = sender.held.erase(next)) {
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

namespace {

constexpr std::size_t kMostDataInRow = 64;

}  // namespace

struct UcxSender::Posted {
  std::atomic<std::size_t>* num_queued;
  void (*free_request)(void*);  // the worker may be about to end
  UcxRow row;
  std::string data;  // of a key, which nobody else keeps
};

UcxSender::UcxSender(UcxWorker& worker, UcxQueues& queues, int rank, int size, bool has_rdma)
    : worker_(worker),
      queues_(queues),
      rank_(rank),
      has_rdma_(has_rdma),
      receivers_(static_cast<std::size_t>(size)) {}

UcxPart UcxSender::part_of(UcxPart::Kind kind) const {
  UcxPart part;
  part.kind = kind;
  part.sender = static_cast<std::uint32_t>(rank_);
  return part;
}

void UcxSender::greet(int rank) {
  UcxRow row;
  row.append(part_of(UcxPart::Kind::greeting), {});
  worker_.send(rank, message_of(begin_message(row, 0)));
}

void UcxSender::send_key(int rank, SegmentId segment, const std::string& message) {
  const std::lock_guard lock(mutex_);
  Receiver& receiver = receivers_[static_cast<std::size_t>(rank)];
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

void UcxSender::write(const RmaWrite& request, const char* source, ucx::Memory source_memory,
                      int queue) {
  const std::lock_guard lock(mutex_);
  Receiver& receiver = receiver_for(request.rank, queue);
  const bool is_put = has_rdma_ && request.num_bytes >= kLeastPutBytes &&
                      put(receiver, request, {source, request.num_bytes}, source_memory);
  if (!is_put) write_pieces(receiver, request, source);
}

bool UcxSender::put(Receiver& receiver, const RmaWrite& request, std::string_view source,
                    ucx::Memory source_memory) {
  auto& num_queued = queues_.num_queued[static_cast<std::size_t>(receiver.queue)];
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

void UcxSender::write_pieces(Receiver& receiver, const RmaWrite& request, const char* source) {
  for (std::size_t done = 0; done < request.num_bytes; done += receiver.last_data.size()) {
    let_last_wait(request.rank, receiver);
    begin_last(receiver, UcxPart::Kind::piece);
    receiver.last->to_segment = request.to_segment;
    receiver.last->offset = request.to + done;
    receiver.last->number = receiver.num_notifications;
    receiver.last_data = {source + done, std::min(request.num_bytes - done, UcxWorker::kMostBytes)};
    ++receiver.num_pieces;
  }
}

void UcxSender::notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                       int queue) {
  const std::lock_guard lock(mutex_);
  Receiver& receiver = receiver_for(rank, queue);
  add_notification(receiver, to_segment, slot, value);
  post_waiting(rank, receiver);
}

void UcxSender::notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                             int queue) {
  const std::lock_guard lock(mutex_);
  Receiver& receiver = receiver_for(rank, queue);
  add_notification(receiver, to_segment, slot, value);
  let_last_wait(rank, receiver);
}

void UcxSender::flush(int queue) {
  if (queues_.num_waiting[static_cast<std::size_t>(queue)].load() == 0) return;
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < receivers_.size(); ++rank) {
    Receiver& receiver = receivers_[rank];
    if (receiver.queue == queue) post_waiting(static_cast<int>(rank), receiver);
  }
}

// What waits for another queue goes first.
UcxSender::Receiver& UcxSender::receiver_for(int rank, int queue) {
  Receiver& receiver = receivers_[static_cast<std::size_t>(rank)];
  if (receiver.queue != queue) post_waiting(rank, receiver);
  receiver.queue = queue;
  return receiver;
}

void UcxSender::begin_last(Receiver& receiver, UcxPart::Kind kind) {
  receiver.last = part_of(kind);
  ++receiver.num_waiting;
  queues_.num_queued[static_cast<std::size_t>(receiver.queue)].fetch_add(1);
  queues_.num_waiting[static_cast<std::size_t>(receiver.queue)].fetch_add(1);
}

// Behind the last piece if there is one that has none.
void UcxSender::add_notification(Receiver& receiver, SegmentId to_segment, std::size_t slot,
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
void UcxSender::let_last_wait(int rank, Receiver& receiver) {
  if (!receiver.last) return;
  const std::string_view data = receiver.last_data;
  if (data.size() > kMostDataInRow ||
      !receiver.row.has_room_for(2 * sizeof(UcxPart) + data.size())) {
    return post_waiting(rank, receiver);
  }
  receiver.row.append(*std::exchange(receiver.last, std::nullopt),
                      std::exchange(receiver.last_data, {}));
}

void UcxSender::post_waiting(int rank, Receiver& receiver) {
  const std::size_t num_waiting = std::exchange(receiver.num_waiting, 0);
  if (num_waiting == 0) return;
  if (receiver.last) receiver.row.append(*std::exchange(receiver.last, std::nullopt), {});
  UcxWorker::Message message = message_of(begin_message(receiver.row, receiver.queue));
  message.data = std::exchange(receiver.last_data, {});
  if (std::exchange(receiver.has_notification, false) && std::exchange(receiver.has_puts, false)) {
    worker_.send_behind_puts(rank, message);
  } else {
    worker_.send(rank, message);
  }
  receiver.row.size = 0;
  // They count as a message now.
  queues_.num_waiting[static_cast<std::size_t>(receiver.queue)].fetch_sub(num_waiting);
  queues_.num_queued[static_cast<std::size_t>(receiver.queue)].fetch_sub(num_waiting);
}

UcxSender::Posted& UcxSender::begin_message(const UcxRow& row, int queue) {
  auto& num_queued = queues_.num_queued[static_cast<std::size_t>(queue)];
  num_queued.fetch_add(1);
  return *new Posted{&num_queued, worker_.library().functions.request_free, row, {}};
}

UcxWorker::Message UcxSender::message_of(Posted& posted) {
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

}  // namespace tnt::comm
