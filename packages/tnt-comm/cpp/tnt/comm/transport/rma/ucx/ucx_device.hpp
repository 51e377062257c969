#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_messages.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

namespace tnt::comm {

/// Remote writes and notifications through active messages of UCX, and through its RDMA puts where
/// the network has RDMA.
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
/// UCX takes any number of messages. queue_capacity() bounds what is on its way, as far as the
/// callers ask.
class UcxDevice final : public RmaDevice {
 public:
  /// Collective among all ranks, blocking: connects them. Errors as Bootstrap, and CommError if the
  /// ranks have versions of UCX that do not understand each other.
  UcxDevice(UcxLibrary library, BootstrapPlace place, RdmaUse rdma, const Deadline& deadline);
  ~UcxDevice() override;

  std::string name() const override { return "UCX " + worker_->library().version; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override;
  void release(SegmentId segment) override;
  /// Any rank may write into a segment as soon as it knows its number; by RDMA, when it has the
  /// key, which arrives before the notifications that follow.
  void introduce(SegmentId segment, int rank, const Deadline& deadline) override;
  void introduce_to_all(SegmentId segment) override;
  void write(const RmaWrite& request, int queue) override;
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override;
  void notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                    int queue) override;
  void flush(int queue) override;
  /// What is put by RDMA comes by the address of the segment, so with RDMA always false.
  bool redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                std::byte* target) override;
  void end_redirect(SegmentId segment, std::size_t to) override;
  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override;
  std::size_t num_notifications() const override { return UcxSegment::kNumNotifications; }
  int num_queues() const override { return UcxQueues::kNum; }
  std::size_t queue_capacity() const override { return kQueueCapacity; }
  std::size_t num_queued(int queue) const override;
  QueueState drain(int queue) override;
  std::vector<int> failed_ranks() const override;
  std::unique_ptr<HostProbe> probe_of_host(int rank) const override;

 private:
  static constexpr std::size_t kQueueCapacity = 4096;

  /// Another rank.
  struct Peer {
    std::string host;  ///< its address
    bool has_rdma = false;
  };

  void connect_all(const std::vector<std::string>& records);
  void greet_all(const Deadline& deadline);
  std::string missing_greetings() const;
  void register_segment(UcxSegment& segment);
  void look_after_worker();

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
