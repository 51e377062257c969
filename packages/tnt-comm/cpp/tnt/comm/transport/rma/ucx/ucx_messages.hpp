#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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
  UcxReceiver(int size, UcxSegments& segments);

  /// A message; `data` is of its last part. Keys go where the caller wants them.
  void take(std::string_view row, std::string_view data, RemoteKeys& keys);

  bool has_greeted(int rank) const;

 private:
  /// One other rank.
  struct Sender {
    bool has_greeted = false;
    std::uint64_t num_delivered = 0;                    ///< notifications
    std::map<std::uint64_t, std::uint64_t> num_pieces;  ///< by number of the next notification
    std::map<std::uint64_t, UcxPart> held;              ///< notifications that came too early
  };

  void take_part(const UcxPart& part, std::string_view data, RemoteKeys& keys);
  void deliver(Sender& sender);

  UcxSegments& segments_;
  mutable std::mutex mutex_;
  std::vector<Sender> senders_;
};

/// What the queues of a rank hold: requests that are not complete, and how many of them still wait
/// for others to go with.
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
  UcxSender(UcxWorker& worker, UcxQueues& queues, int rank, int size, bool has_rdma);

  void greet(int rank);

  /// Tells the key of a segment of this rank; `message` is one of RemoteKeys. It is there before
  /// the notifications that follow.
  void send_key(int rank, SegmentId segment, const std::string& message);

  /// `source`: the data, in memory that may be registered.
  void write(const RmaWrite& request, const char* source, ucx::Memory source_memory, int queue);

  /// See RmaDevice.
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value, int queue);
  void notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                    int queue);
  void flush(int queue);

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
  struct Posted;

  UcxPart part_of(UcxPart::Kind kind) const;
  Receiver& receiver_for(int rank, int queue);
  bool put(Receiver& receiver, const RmaWrite& request, std::string_view source,
           ucx::Memory source_memory);
  void write_pieces(Receiver& receiver, const RmaWrite& request, const char* source);
  void begin_last(Receiver& receiver, UcxPart::Kind kind);
  void add_notification(Receiver& receiver, SegmentId to_segment, std::size_t slot,
                        std::uint32_t value);
  void let_last_wait(int rank, Receiver& receiver);
  void post_waiting(int rank, Receiver& receiver);
  UcxWorker::Message message_of(Posted& posted);
  Posted& begin_message(const UcxRow& row, int queue);

  UcxWorker& worker_;
  UcxQueues& queues_;
  int rank_;
  bool has_rdma_;
  std::mutex mutex_;
  std::vector<Receiver> receivers_;
};

}  // namespace tnt::comm
