#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

class Rendezvous;

/// Whether a rank that is not known to have ended does not get to run.
bool is_silent(const PeerStatus& status);

/// Whether a group can still be used, shared by everything that runs on it.
///
/// The first error breaks the group for good: data of an interrupted
/// collective may be half written, so nothing after it could be trusted. A
/// rank that breaks its group tells the other members why. Thread-safe.
class AbortState {
 public:
  /// Bytes of each member's part of the group's segment that hold what the
  /// others say, and the notification that announces it.
  static std::size_t num_bytes(std::size_t num_members);
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
  int world_rank_of(int member) const { return members_[static_cast<std::size_t>(member)]; }

  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  void rethrow_if_broken() const {  ///< throws the first error as it was
    if (is_broken()) throw Error(*first_error_);
  }

  /// For the begin of a call: throws if this rank or another one has broken
  /// the group, saying that it is an earlier error. What a rank has posted
  /// before it gave up must not be taken for its part in a collective.
  void require_intact();
  std::optional<Error> first_error() const { return is_broken() ? first_error_ : std::nullopt; }

  /// Breaks the group and tells the others, unless it is broken already.
  void fail(const Error& error);

  /// Throws if another member has broken the group.
  void check_failures_of_others() const {
    if (const auto error = failure_of_others()) throw Error(*error);
  }
  std::optional<Error> failure_of_others() const;

  /// The groups that ranks of the job create meanwhile.
  const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }

  PeerStatus status_of(int member) const { return transport_.status_of(world_rank_of(member)); }

 private:
  struct Report;

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
