#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_message.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

namespace tnt::comm {

/// What the queues of a rank hold: requests that are not complete, and how many of them still wait
/// for others to go with.
struct UcxQueues {
  static constexpr int kNum = 9;
  using Counts = std::array<std::atomic<std::size_t>, kNum>;

  Counts num_queued{};
  Counts num_waiting{};
};

/// What goes to other ranks: writes, as pieces in messages or as puts, and notifications, which
/// leave together where they may. See UcxDevice for how they are ordered.
///
/// Threads: all functions may be called from any thread.
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
