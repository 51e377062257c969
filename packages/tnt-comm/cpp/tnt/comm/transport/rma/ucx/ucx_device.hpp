#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"
#include "tnt/comm/transport/rma/open_files.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

namespace tnt::comm {

/// Remote writes and notifications through active messages of UCX.
///
/// A write goes in pieces of at most UcxWorker::kMostBytes, which the receiver copies to their
/// place. UCX does not promise that messages arrive in the order in which they were sent: not over
/// several rails, and not in all versions. So notifications from one rank to another are numbered;
/// a piece has the number of the next one, which says how many pieces that are, and is held back
/// until these and the notification before it are there. Nothing else has to be ordered. The last
/// piece of a write waits for the notification behind it, and goes in the same message.
///
/// UCX takes any number of messages. queue_capacity() bounds what is on its way, as far as the
/// callers ask.
class UcxDevice final : public RmaDevice {
 public:
  /// Collective among all ranks, blocking: connects them. Errors as Bootstrap, and CommError if the
  /// ranks have versions of UCX that do not understand each other.
  UcxDevice(UcxLibrary library, BootstrapPlace place, const Deadline& deadline);
  ~UcxDevice() override;

  std::string name() const override { return "UCX " + worker_->library().version; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override;
  void release(SegmentId segment) override;
  /// Any rank may write into a segment as soon as it knows its number.
  void introduce(SegmentId /*segment*/, int /*rank*/, const Deadline& /*deadline*/) override {}
  void introduce_to_all(SegmentId segment) override;
  void write(const RmaWrite& request, int queue) override;
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override;
  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override;
  std::size_t num_notifications() const override { return kNumNotifications; }
  int num_queues() const override { return kNumQueues; }
  std::size_t queue_capacity() const override { return kQueueCapacity; }
  std::size_t num_queued(int queue) const override;
  QueueState drain(int queue) override;
  std::vector<int> failed_ranks() const override;
  std::unique_ptr<HostProbe> probe_of_host(int rank) const override;

 private:
  static constexpr int kNumQueues = 9;
  static constexpr std::size_t kQueueCapacity = 4096;
  static constexpr std::size_t kNumNotifications = std::size_t{1} << 17;

  enum class Kind : std::uint8_t { greeting, piece, notification };

  /// Of a message, whose data, if there is any, is a piece. Trivially copyable: it travels as is.
  struct Header {
    Kind kind = Kind::greeting;
    SegmentId to_segment = 0;  ///< of the piece
    SegmentId segment = 0;     ///< of the notification
    std::uint8_t unused = 0;
    std::uint32_t sender = 0;
    std::uint64_t number = 0;  ///< of the notification, or of the next one
    std::uint64_t offset = 0;  ///< of the piece
    std::uint32_t slot = 0;    ///< of the notification
    std::uint32_t value = 0;
    std::uint64_t num_pieces = 0;  ///< since the notification before, that of this message included
  };

  struct Posted {
    UcxDevice* device;
    void (*free_request)(void*);  // the worker may be about to end
    int queue;
    Header header;
  };

  /// A segment of this rank.
  struct Memory;

  /// What goes to another rank.
  struct Outgoing {
    std::uint64_t num_notifications = 0;
    std::uint64_t num_pieces = 0;  ///< since the last one
    Header last;                   ///< piece, which has not been sent yet
    std::string_view last_data;    ///< empty: there is none
    int queue = 0;                 ///< of the last piece
  };

  /// What comes from another rank.
  struct Incoming {
    bool has_greeted = false;
    std::uint64_t num_delivered = 0;                    ///< notifications
    std::map<std::uint64_t, std::uint64_t> num_pieces;  ///< by number of the next notification
    std::map<std::uint64_t, Header> held;               ///< notifications that came too early
  };

  void connect_all(const std::vector<std::string>& records);
  void greet_all(const Deadline& deadline);
  std::string missing_greetings();
  Header header_of(Kind kind) const;
  void send_last_piece(int rank, Outgoing& outgoing);
  void post_with_last_piece(int rank, Outgoing& outgoing, const Header& header);
  void post(int rank, const Header& header, std::string_view data, int queue);
  void take(std::string_view header, std::string_view data);
  void put_down(const Header& header, std::string_view data);
  void deliver(Incoming& incoming);
  void look_after_worker();

  int rank_;
  int size_;
  OpenSockets sockets_before_ = open_sockets();
  std::unique_ptr<Bootstrap> bootstrap_;  // until all are connected
  std::vector<std::string> hosts_;        // addresses by rank
  std::array<std::atomic<Memory*>, kNumSegments> segments_{};
  std::mutex incoming_mutex_;  // segments that are written to or freed, and what has come
  std::vector<Incoming> incoming_;
  std::mutex outgoing_mutex_;
  std::vector<Outgoing> outgoing_;
  std::array<std::atomic<std::size_t>, kNumQueues> num_queued_{};
  std::array<std::atomic<std::size_t>, kNumQueues> num_last_pieces_{};  // of them
  mutable std::mutex failed_mutex_;
  std::vector<int> failed_;
  std::atomic<bool> has_new_failure_{false};
  std::atomic<std::int64_t> next_progress_ns_{0};
  std::atomic<bool> is_stopping_{false};
  std::unique_ptr<UcxWorker> worker_;  // whose handlers use all above
  std::thread thread_;
};

}  // namespace tnt::comm
