#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Which creation of a group, or of an object on one: the same on all its members,
/// unique in the job.
struct CreationId {
  std::uint64_t members = 0;  ///< fingerprint of their ranks, or of the key of the object's group
  std::uint64_t use = 0;      ///< how many of the same members, or group, each has begun before

  friend bool operator==(const CreationId&, const CreationId&) = default;
};

/// What the other members of a creation get when one has failed. `title` says what was created.
Error creation_failure(const std::string& title, int rank, const Error& error);

/// Which groups the ranks of a job are creating, for the case that some wait in
/// a creation and others in another call, and what they could not create.
///
/// A creation has no ring on which calls could be compared: only its members
/// take part. So a rank that has waited in one for long tells the members. One of
/// them that has not begun it, and is itself blocked in a wait for that rank,
/// will never do so: it refuses, which ends all creations. A rank whose own part
/// cannot be made tells the members, which ends this creation and nothing else.
///
/// Lives in the memory of the world, where a rank is its own index. Thread-safe.
class Rendezvous {
 public:
  static std::size_t num_bytes(std::size_t num_ranks);
  static constexpr std::size_t kNumNotifications = 3;

  Rendezvous(std::shared_ptr<Segment> segment, std::size_t offset, NotificationId first)
      : segment_(std::move(segment)), offset_(offset), first_(first) {}

  /// This rank takes part in a creation. It stays known after its end, since
  /// others may not have seen the end yet.
  void begin(const CreationId& id);

  /// Tells the members that this rank has waited for them in a creation. `title`
  /// is what they show, such as "group 'ranks 0, 1' from train.py:31". A rank says
  /// so of one creation at a time; until that is withdrawn, nothing else is told.
  void tell(const std::vector<int>& members, const CreationId& id, const std::string& title);
  /// The creation has ended, well or not. Nothing happens if it was not told.
  void withdraw(const CreationId& id);

  /// Title of the creation in which `rank` waits for this rank, unless this rank
  /// has begun it as well.
  std::optional<std::string> awaited_by(int rank) const;

  /// Ends the waits of all ranks in creations: the job cannot go on. The first reason counts.
  void refuse(const std::string& reason);
  /// Why another rank has refused a creation, if one has.
  std::optional<std::string> refusal() const;

  /// Tells the members that this rank has failed in a creation, of anything. Who comes
  /// to it later learns that, too, unless this rank has failed in kNumKept others since.
  void fail(const std::vector<int>& members, const CreationId& id, const Error& error);
  /// The error for a creation in which another member has failed, if one has.
  std::optional<Error> failure_of_others(const std::vector<int>& members, const CreationId& id,
                                         const std::string& title) const;

 private:
  struct Record;
  enum class Area : std::size_t { notices, refusals, failures };
  static constexpr std::size_t kNumKept = 4;

  std::size_t offset_of(Area area, int rank, std::size_t slot = 0) const;
  NotificationId notification_of(Area area) const {
    return first_ + static_cast<NotificationId>(area);
  }
  void write_own(std::size_t offset, const Record& record);
  void to_others(const std::vector<int>& ranks, std::size_t num_messages, const auto& send_to);
  void send(const std::vector<int>& ranks, Area area, std::uint64_t value, const Record& record);
  Record read(std::size_t offset) const;

  std::shared_ptr<Segment> segment_;
  std::size_t offset_;
  NotificationId first_;
  mutable std::mutex mutex_;
  // By members, how many groups of them this rank has begun.
  std::map<std::uint64_t, std::uint64_t> num_begun_;
  CreationId told_id_;
  std::vector<int> told_;       // who was told, while a notice stands
  std::uint64_t num_told_ = 0;  // odd while a notice stands
  bool has_refused_ = false;
  std::uint64_t num_failed_ = 0;
};

}  // namespace tnt::comm
