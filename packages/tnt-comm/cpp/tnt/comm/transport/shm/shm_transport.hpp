#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/shm/control_segment.hpp"
#include "tnt/comm/transport/shm/shared_memory.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Segment in POSIX shared memory: one object holds the parts of all members,
/// so each maps it once and reads its peers' parts directly.
///
/// Layout: a header, then per member its notification counters (one run per
/// sender, on cache lines of its own) and its part.
class ShmSegment final : public Segment {
 public:
  /// Collective and blocking. The first member creates the object, the others find it by name; each
  /// reserves its own part (memory lands on its NUMA node); then the name is removed.
  ShmSegment(const std::string& name, const SegmentRequest& request, int member,
             std::shared_ptr<ControlSegment> control, const Deadline& deadline);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(request_.members.size()); }
  std::byte* local() override { return part(rank_); }
  const std::byte* peer(int member) const override { return part(member); }
  std::byte* writable_peer(int member) override { return part(member); }
  void wake_others() override;
  void discard_local() override;
  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override;
  bool has_room(int, std::size_t) override { return true; }
  void notify(int member, NotificationId id, std::uint64_t value) override;
  std::uint64_t poll(int sender, NotificationId id) const override;

 private:
  struct Header;
  using Counter = std::atomic<std::uint64_t>;

  void map(const std::string& name, const Deadline& deadline);
  void wait_until(const std::function<bool()>& is_reached, const char* what,
                  const Deadline& deadline) const;
  void require_alive(int member) const;
  int world_rank(int member) const { return request_.members[static_cast<std::size_t>(member)]; }
  /// Where a member's counters begin, behind the header, which has a page of its own.
  std::size_t begin_of(int member) const {
    return kPage + static_cast<std::size_t>(member) * member_bytes_;
  }
  Header& header() const;
  std::byte* part(int member) const;
  Counter& counter(int receiver, int sender, NotificationId id) const;

  static constexpr std::size_t kPage = 4096;

  SegmentRequest request_;
  int rank_;
  /// Of counters at one receiver: of one sender each, or of all.
  std::size_t num_runs_ = request_.senders == Senders::one ? 1 : request_.members.size();
  std::size_t run_bytes_;
  std::size_t member_bytes_;  // counters and part of one member, whole pages
  SharedMemory memory_;
  std::shared_ptr<ControlSegment> control_;
};

/// The ranks of one host, through POSIX shared memory.
class ShmTransport final : public Transport {
 public:
  /// Collective among all ranks of the host, blocking.
  ShmTransport(HostRanks host, int rank, const Deadline& deadline, double stall_report_s,
               double start_report_s = kStartReportS)
      : host_(std::move(host)),
        rank_(rank),
        control_(std::make_shared<ControlSegment>(host_, rank, deadline, stall_report_s,
                                                  start_report_s)) {}

  int rank() const override { return rank_; }
  int size() const override { return host_.count; }
  int node_of(int) const override { return 0; }
  Capabilities capabilities() const override { return {.is_peer_memory_readable = true}; }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
    return std::make_unique<ShmSegment>(text("/tnt-", host_.prefix, "-", request.key), request,
                                        request.index_of(rank_), control_, deadline);
  }
  Doorbell& doorbell() override { return control_->doorbell_of(rank_); }
  PeerStatus status_of(int rank) const override { return control_->status_of(rank); }
  void beat() override { control_->beat(); }
  void leave(PeerState state, const std::string& reason) override {
    control_->leave(state, reason);
  }

 private:
  HostRanks host_;
  int rank_;
  std::shared_ptr<ControlSegment> control_;  // shared with segments, which may live longer
};

}  // namespace tnt::comm
