#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

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
             std::shared_ptr<ControlSegment> control, const Deadline& deadline)
      : request_(request),
        rank_(member),
        run_bytes_(round_up(request.num_notifications * sizeof(Counter), kCacheLineBytes)),
        member_bytes_(round_up(num_runs_ * run_bytes_ + request.num_bytes, kPage)),
        control_(std::move(control)) {
    try {
      map(name, deadline);
      memory_.reserve(world_rank(rank_), begin_of(rank_), member_bytes_);
      header().num_mapped.fetch_add(1);
      const auto everybody = static_cast<std::uint32_t>(size());
      wait_until([&] { return header().num_mapped.load() >= everybody; }, "map", deadline);
    } catch (...) {
      SharedMemory::unlink(name);
      throw;
    }
    request_.look_around = {};
    SharedMemory::unlink(name);  // whoever is first; the others find it gone
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(request_.members.size()); }
  std::byte* local() override { return part(rank_); }
  const std::byte* peer(int member) const override { return part(member); }
  std::byte* writable_peer(int member) override { return part(member); }

  void wake_others() override {
    full_fence();
    for (int member = 0; member < size(); ++member) {
      if (member == rank_) continue;
      control_->doorbell_of(world_rank(member)).ring_if_heard();
    }
  }

  void discard_local() override {
    // Whole pages of the part only: the counters before it stay in use.
    const std::byte* end = memory_.data() + begin_of(rank_ + 1);
    const auto begin = round_up(reinterpret_cast<std::uintptr_t>(local()), kPage);
    const auto length = reinterpret_cast<std::uintptr_t>(end) - begin;
    if (length > 0) ::madvise(reinterpret_cast<void*>(begin), length, MADV_REMOVE);
  }

  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override {
    if (num_bytes > 0) std::memcpy(part(member) + to, local() + from, num_bytes);
  }

  bool has_room(int, std::size_t) override { return true; }

  void notify(int member, NotificationId id, std::uint64_t value) override {
    release_fence();
    counter(member, rank_, id).store(value, std::memory_order_relaxed);
    full_fence();
    control_->doorbell_of(world_rank(member)).ring_if_heard();
  }

  std::uint64_t poll(int sender, NotificationId id) const override {
    // Fences, since every rank has a mapping of its own: ThreadSanitizer goes by
    // addresses and would see the two sides use different counters.
    const std::uint64_t value = counter(rank_, sender, id).load(std::memory_order_relaxed);
    acquire_fence();
    return value;
  }

 private:
  struct Header {
    std::atomic<std::uint32_t> is_ready;
    std::atomic<std::uint32_t> num_mapped;
  };
  using Counter = std::atomic<std::uint64_t>;

  void map(const std::string& name, const Deadline& deadline) {
    const std::size_t num_bytes = begin_of(size());
    if (rank_ == 0) {
      memory_ = SharedMemory::create(name, num_bytes);
      memory_.reserve(world_rank(rank_), 0, kPage);
      header().is_ready.store(1, std::memory_order_release);
      return;
    }
    wait_until(
        [&] {
          return SharedMemory::try_open(name, num_bytes, memory_) &&
                 has_begun(memory_.descriptor()) &&
                 header().is_ready.load(std::memory_order_acquire) != 0;
        },
        "create", deadline);
  }

  void wait_until(const std::function<bool()>& is_reached, const char* what,
                  const Deadline& deadline) const {
    constexpr int kLooksBetweenLivenessChecks = 500;
    const auto complaint = [&](double waited_s) {
      return text("has waited ", waited_s, " s for the other members to ", what, " ",
                  request_.title(), " together.");
    };
    const PolledWait wait{.rank = world_rank(rank_),
                          .deadline = deadline,
                          .stall_report_s = control_->stall_report_s(),
                          .interval = std::chrono::microseconds(200),
                          .complaint = complaint,
                          .remedy = kCreateTogether};
    int num_looks = 0;
    poll_until(wait, [&] {
      if (is_reached()) return true;
      if (++num_looks % kLooksBetweenLivenessChecks == 0) {
        request_.look_around();
        for (int member = 0; member < size(); ++member) require_alive(member);
      }
      return false;
    });
  }

  void require_alive(int member) const {
    const int peer = world_rank(member);
    const PeerStatus status = control_->status_of(peer);
    if (status.state == PeerState::running || member == rank_) return;
    throw Error(ErrorKind::peer_lost, "rank ", world_rank(rank_), " creates ", request_.title(),
                " together with rank ", peer, " (host ", status.host, ", pid ", status.pid,
                "), which has ended", status.reason.empty() ? "" : ": ", status.reason,
                full_stop_after(status.reason), " See the output of that rank.")
        .caused_by(peer);
  }

  int world_rank(int member) const { return at(request_.members, member); }
  /// Where a member's counters begin, behind the header, which has a page of its own.
  std::size_t begin_of(int member) const {
    return kPage + static_cast<std::size_t>(member) * member_bytes_;
  }

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }

  std::byte* part(int member) const {
    return memory_.data() + begin_of(member) + num_runs_ * run_bytes_;
  }

  Counter& counter(int receiver, int sender, NotificationId id) const {
    std::byte* run = memory_.data() + begin_of(receiver) +
                     (num_runs_ == 1 ? 0 : static_cast<std::size_t>(sender)) * run_bytes_;
    return reinterpret_cast<Counter*>(run)[id];
  }

  // Reads without touching what may not be reserved yet: where /dev/shm is full, that is a SIGBUS.
  static bool has_begun(int descriptor) {
    std::uint32_t word = 0;
    return ::pread(descriptor, &word, sizeof word, 0) == sizeof word && word != 0;
  }

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
