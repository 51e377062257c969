#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/rma/rma_core.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// One member's part of a segment, in memory that this rank's device has registered. Others' parts
/// cannot be read; they are written to.
///
/// All puts and notifications go through one queue, so that they arrive in
/// order. What is sent to a rank that is gone is dropped.
class RmaSegment final : public Segment {
 public:
  struct Part {
    SegmentId own_id = 0;
    std::vector<SegmentId> ids;  ///< of all members, each in its own numbering
    std::byte* memory = nullptr;
  };

  /// Made by create_rma_segment().
  RmaSegment(std::shared_ptr<RmaCore> core, const SegmentRequest& request, int member, Part part);
  ~RmaSegment() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::byte* local() override { return part_.memory; }
  const std::byte* peer(int member) const override {
    return member == rank_ ? part_.memory : nullptr;
  }
  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override;
  bool has_room(int member, std::size_t num_messages) override;
  void notify(int member, NotificationId id, std::uint64_t value) override;
  std::uint64_t poll(int sender, NotificationId id) const override;

 private:
  using Counter = std::atomic<std::uint64_t>;

  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  std::size_t slot(int sender, NotificationId id) const;
  int queue();
  void wait_for_room(int member);

  std::shared_ptr<RmaCore> core_;
  std::string key_;
  std::string title_;
  std::vector<int> members_;  // world ranks
  int rank_;
  Senders senders_;
  std::size_t num_notifications_;
  Part part_;
  std::atomic<int> queue_;
  mutable std::vector<Counter> newest_;  // of each notification, by slot
};

/// Creates a segment with the other members. Collective and blocking.
///
/// Each member says what it is about to create and waits for the others, so
/// that nobody allocates alone; then allocates its part, makes it known to the
/// others and tells them that it is there.
///
/// PeerLostError, timeout, a mismatch of what the members ask for, or a
/// CommError: no memory, no free segment id, too many notifications.
std::unique_ptr<Segment> create_rma_segment(const std::shared_ptr<RmaCore>& core,
                                            const SegmentRequest& request,
                                            const Deadline& deadline);

/// All ranks of a job, through a network library.
class RmaTransport final : public Transport {
 public:
  /// Collective among all ranks, blocking.
  RmaTransport(std::unique_ptr<RmaDevice> device, const Environment& environment,
               const Deadline& deadline)
      : core_(std::make_shared<RmaCore>(std::move(device), environment, deadline)),
        ended_(environment.job_id, environment.rank) {}

  int rank() const override { return core_->rank(); }
  int size() const override { return core_->size(); }
  int node_of(int rank) const override { return core_->node_of(rank); }
  Capabilities capabilities() const override {
    return {.is_peer_memory_readable = false,
            .is_doorbell_rung_by_peers = false,
            .most_counters = core_->device().num_notifications()};
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
    return create_rma_segment(core_, request, deadline);
  }
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int rank) const override {
    PeerStatus status = core_->peers().status_of(rank);
    if (status.state == PeerState::dead) status.reason = ended_.end_of(rank).value_or("");
    return status;
  }
  void beat() override { core_->beat(); }
  void leave(PeerState state, const std::string& reason) override { core_->leave(state, reason); }

 private:
  std::shared_ptr<RmaCore> core_;  // shared with segments, which may live longer
  EndedRanks ended_;               // of this host
  DoorbellWords words_;
  FutexDoorbell doorbell_{words_};
};

}  // namespace tnt::comm
