#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

class Rendezvous;

/// Whether a rank that is not known to have ended does not get to run.
inline bool is_silent(const PeerStatus& status) {
  // Engines show a sign of life four times per second; this many missed ones
  // mean that the process is stopped or swapped out.
  constexpr double kSilenceMeansStoppedS = 2.0;
  return status.heartbeat_age_s > kSilenceMeansStoppedS;
}

/// Whether a group can still be used, shared by everything that runs on it.
///
/// The first error breaks the group for good: data of an interrupted
/// collective may be half written, so nothing after it could be trusted. A
/// rank that breaks its group tells the other members why. Thread-safe.
class AbortState {
 public:
  /// Bytes of each member's part of the group's segment that hold what the
  /// others say, and the notification that announces it.
  static std::size_t num_bytes(std::size_t num_members) { return num_members * sizeof(Report); }

  static constexpr NotificationId kNotification = 0;

  /// The bytes begin at offset 0 of the segment.
  AbortState(std::string group_name, std::vector<int> members, std::shared_ptr<Segment> segment,
             Transport& transport, std::shared_ptr<Rendezvous> rendezvous)
      : group_name_(std::move(group_name)),
        members_(std::move(members)),
        segment_(std::move(segment)),
        transport_(transport),
        rendezvous_(std::move(rendezvous)) {}

  const std::string& group_name() const { return group_name_; }
  int world_rank() const { return transport_.rank(); }
  int num_members() const { return static_cast<int>(members_.size()); }
  int world_rank_of(int member) const { return at(members_, member); }
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  void rethrow_if_broken() const {  ///< throws the first error as it was
    if (is_broken()) throw Error(*first_error_);
  }

  /// For the begin of a call: throws if this rank or another one has broken
  /// the group, saying that it is an earlier error. What a rank has posted
  /// before it gave up must not be taken for its part in a collective.
  void require_intact() {
    refuse_forked_child();
    if (!is_broken()) {
      try {
        check_failures_of_others();
        return;
      } catch (const Error& error) {
        fail(error);
      }
    }
    throw Error(first_error_->kind(), "rank ", world_rank(), ": group '", group_name_,
                "' has been broken since an earlier error and can no longer be used; end the"
                " program or restart it from a checkpoint. The first error was: ",
                first_error_->what())
        .caused_by(first_error_->cause_rank());
  }

  std::optional<Error> first_error() const { return is_broken() ? first_error_ : std::nullopt; }

  /// Breaks the group and tells the others, unless it is broken already.
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (is_broken()) return;
    first_error_ = error;
    is_broken_.store(true, std::memory_order_release);
    Report report{};
    report.kind = static_cast<std::uint32_t>(error.kind());
    report.what.set(error.what());
    const std::size_t offset = static_cast<std::size_t>(segment_->rank()) * sizeof(Report);
    std::memcpy(segment_->local() + offset, &report, sizeof report);
    for (int member = 0; member < segment_->size(); ++member) {
      // Without room the member is stuck itself, and this rank must not be as well:
      // it will be known as failed when it leaves. The report stays as it is, so
      // nobody has to wait until it has been sent.
      if (member == segment_->rank() || !segment_->has_room(member, 2)) continue;
      segment_->put(member, offset, offset, sizeof report);
      segment_->notify(member, kNotification, 1);
    }
  }

  /// Throws if another member has broken the group.
  void check_failures_of_others() const {
    if (const auto error = failure_of_others()) throw Error(*error);
  }

  std::optional<Error> failure_of_others() const {
    for (int member = 0; member < segment_->size(); ++member) {
      if (member == segment_->rank() || segment_->poll(member, kNotification) == 0) continue;
      Report report;
      const std::size_t offset = static_cast<std::size_t>(member) * sizeof(Report);
      std::memcpy(&report, segment_->local() + offset, sizeof report);
      const auto kind = static_cast<ErrorKind>(report.kind);
      // A mismatch is everybody's; for the rest, the other rank is what is lost.
      return Error(kind == ErrorKind::mismatch ? kind : ErrorKind::peer_lost, "rank ", world_rank(),
                   ": group '", group_name_, "' was given up by rank ", world_rank_of(member),
                   ", which reports: ", report.what.get())
          .caused_by(world_rank_of(member));
    }
    return std::nullopt;
  }

  /// The groups that ranks of the job create meanwhile.
  const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }
  PeerStatus status_of(int member) const { return transport_.status_of(world_rank_of(member)); }

 private:
  // What one member tells another about why it gave up.
  struct Report {
    std::uint32_t kind;
    FixedText<1020> what;
  };

  std::string group_name_;
  std::vector<int> members_;
  std::shared_ptr<Segment> segment_;
  Transport& transport_;
  std::shared_ptr<Rendezvous> rendezvous_;
  mutable std::mutex mutex_;
  std::atomic<bool> is_broken_{false};
  std::optional<Error> first_error_;  // guarded until is_broken_
};

}  // namespace tnt::comm
