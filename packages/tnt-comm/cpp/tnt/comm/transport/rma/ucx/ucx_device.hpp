#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
/// piece of a write waits for the notification behind it, and goes in the same message. A
/// notification that may be late waits for the next message in turn, with its piece if that is
/// short: messages cost a rank more than what is in them.
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
  void notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                    int queue) override;
  void flush(int queue) override;
  bool redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                std::byte* target) override;
  void end_redirect(SegmentId segment, std::size_t to) override;
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

  /// A piece, if there is data, and behind it a notification, if it is of that kind. A message is a
  /// row of them. Trivially copyable: it travels as is.
  struct Part {
    Kind kind = Kind::greeting;
    SegmentId to_segment = 0;     ///< of the piece
    SegmentId segment = 0;        ///< of the notification
    std::uint8_t data_bytes = 0;  ///< that follow in the row; data of the last part may go apart
    std::uint32_t sender = 0;
    std::uint64_t number = 0;  ///< of the notification, or of the next one
    std::uint64_t offset = 0;  ///< of the piece
    std::uint32_t slot = 0;    ///< of the notification
    std::uint32_t value = 0;
    std::uint64_t num_pieces = 0;  ///< since the notification before, that of this part included
  };

  struct Row {
    void append(const Part& part, std::string_view data);
    std::string_view view() const { return {bytes.data(), size}; }

    std::array<char, 512> bytes;
    std::size_t size = 0;
  };

  /// A message that UCX has got.
  struct Posted;

  /// A segment of this rank.
  struct Memory;

  /// What goes to another rank.
  struct Outgoing {
    std::uint64_t num_notifications = 0;
    std::uint64_t num_pieces = 0;  ///< since the last one
    // What has not been sent yet: a row, and behind it one more part.
    Row row;
    std::optional<Part> last;
    std::string_view last_data;
    std::size_t num_waiting = 0;  ///< parts
    int queue = 0;                ///< theirs
  };

  /// What comes from another rank.
  struct Incoming {
    bool has_greeted = false;
    std::uint64_t num_delivered = 0;                    ///< notifications
    std::map<std::uint64_t, std::uint64_t> num_pieces;  ///< by number of the next notification
    std::map<std::uint64_t, Part> held;                 ///< notifications that came too early
  };

  void connect_all(const std::vector<std::string>& records);
  void greet_all(const Deadline& deadline);
  std::string missing_greetings();
  Part part_of(Kind kind) const;
  Outgoing& outgoing_to(int rank, int queue);
  void begin_last(Outgoing& outgoing, Kind kind);
  void add_notification(Outgoing& outgoing, SegmentId to_segment, std::size_t slot,
                        std::uint32_t value);
  void let_last_wait(int rank, Outgoing& outgoing);
  void post_waiting(int rank, Outgoing& outgoing);
  void post(int rank, const Row& row, std::string_view data, int queue);
  void take(std::string_view row, std::string_view data);
  void take(const Part& part, std::string_view data);
  void put_down(const Part& part, std::string_view data);
  std::byte* place_of(const Part& part, std::size_t num_bytes) const;
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
  std::array<std::atomic<std::size_t>, kNumQueues> num_waiting_{};  // of them, in Outgoing
  mutable std::mutex failed_mutex_;
  std::vector<int> failed_;
  std::atomic<bool> has_new_failure_{false};
  std::atomic<std::int64_t> next_progress_ns_{0};
  std::atomic<bool> is_stopping_{false};
  std::unique_ptr<UcxWorker> worker_;  // whose handlers use all above
  std::thread thread_;
};

}  // namespace tnt::comm
