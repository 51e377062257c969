#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Which creation of a group, or of an object on one: the same on all members, unique in the job.
struct CreationId {
  std::uint64_t members = 0;  ///< fingerprint of their ranks, or of the key of the object's group
  std::uint64_t use = 0;      ///< how many of the same members, or group, each has begun before

  friend bool operator==(const CreationId&, const CreationId&) = default;
};

/// What the other members of a creation get when one has failed. `title` says what was created.
inline Error creation_failure(const std::string& title, int rank, const Error& error) {
  const ErrorKind kind = error.kind() == ErrorKind::usage ? ErrorKind::comm : error.kind();
  return Error(kind, title, " could not be created, since rank ", rank, " failed: ", error.what())
      .caused_by(rank);
}

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
  static std::size_t num_bytes(std::size_t num_ranks) {
    return (2 + kNumKept) * num_ranks * sizeof(Record);
  }

  static constexpr std::size_t kNumNotifications = 3;

  Rendezvous(std::shared_ptr<Segment> segment, std::size_t offset, NotificationId first)
      : segment_(std::move(segment)), offset_(offset), first_(first) {}

  /// This rank takes part in a creation: known after its end, which others may not have seen yet.
  void begin(const CreationId& id) {
    const std::lock_guard lock(mutex_);
    std::uint64_t& num_begun = num_begun_[id.members];
    num_begun = std::max(num_begun, id.use + 1);
  }

  /// Tells the members that this rank has waited for them in a creation. `title`
  /// is what they show, such as "group 'ranks 0, 1' from train.py:31". A rank says
  /// so of one creation at a time; until that is withdrawn, nothing else is told.
  void tell(const std::vector<int>& members, const CreationId& id, const std::string& title) {
    const std::lock_guard lock(mutex_);
    if (!told_.empty()) return;
    told_id_ = id;
    told_ = members;
    send(told_, Area::notices, ++num_told_, Record::of(id, title));
  }

  /// The creation has ended, well or not. Nothing happens if it was not told.
  void withdraw(const CreationId& id) {
    const std::lock_guard lock(mutex_);
    if (told_.empty() || !(told_id_ == id)) return;
    ++num_told_;
    to_others(told_, 1, [this](int rank) {
      segment_->notify(rank, notification_of(Area::notices), num_told_);
    });
    told_.clear();
  }

  /// Title of the creation in which `rank` waits for this rank, unless this one has begun it too.
  std::optional<std::string> awaited_by(int rank) const {
    const std::lock_guard lock(mutex_);
    const std::uint64_t num_told = segment_->poll(rank, notification_of(Area::notices));
    if (num_told % 2 == 0) return {};
    const Record record = read(offset_of(Area::notices, rank));
    // It may have been withdrawn, and another one be written, in the meantime.
    if (segment_->poll(rank, notification_of(Area::notices)) != num_told) return {};
    const auto begun = num_begun_.find(record.id.members);
    if (begun != num_begun_.end() && begun->second > record.id.use) return {};
    return record.what.get();
  }

  /// Ends the waits of all ranks in creations: the job cannot go on. The first reason counts.
  void refuse(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (has_refused_) return;
    const auto all = ranks_where(segment_->size(), [](int) { return true; });  // may throw
    has_refused_ = true;
    send(all, Area::refusals, 1, Record::of({}, reason));
  }

  /// Why another rank has refused a creation, if one has.
  std::optional<std::string> refusal() const {
    const std::lock_guard lock(mutex_);
    for (int rank = 0; rank < segment_->size(); ++rank) {
      if (rank == segment_->rank()) continue;
      if (segment_->poll(rank, notification_of(Area::refusals)) == 0) continue;
      return read(offset_of(Area::refusals, rank)).what.get();
    }
    return {};
  }

  /// Tells the members that this rank has failed in a creation, of anything. Who comes
  /// to it later learns that, too, unless this rank has failed in kNumKept others since.
  void fail(const std::vector<int>& members, const CreationId& id, const Error& error) {
    const std::lock_guard lock(mutex_);
    const std::size_t offset = offset_of(Area::failures, segment_->rank(), num_failed_ % kNumKept);
    write_own(offset, Record::of(id, error.what(), error.kind()));
    ++num_failed_;
    const NotificationId notification = notification_of(Area::failures);
    to_others(members, 3, [&](int rank) {
      segment_->notify(rank, notification, 2 * num_failed_ - 1);  // odd: it is being written
      segment_->put(rank, offset, offset, sizeof(Record));
      segment_->notify(rank, notification, 2 * num_failed_);
    });
  }

  /// The error for a creation in which another member has failed, if one has.
  std::optional<Error> failure_of_others(const std::vector<int>& members, const CreationId& id,
                                         const std::string& title) const {
    const NotificationId notification = notification_of(Area::failures);
    for (const int rank : members) {
      if (rank == segment_->rank()) continue;
      const std::uint64_t num_told = segment_->poll(rank, notification);
      if (num_told == 0 || num_told % 2 != 0) continue;
      for (std::size_t slot = 0; slot < kNumKept; ++slot) {
        const Record record = read(offset_of(Area::failures, rank, slot));
        if (!(record.id == id) || record.kind == 0) continue;
        if (segment_->poll(rank, notification) != num_told) break;  // it may be overwritten
        return creation_failure(title, rank, record.error());
      }
    }
    return {};
  }

 private:
  struct Record {
    CreationId id;
    std::uint32_t kind;  // of the error, if it is one
    FixedText<1004> what;

    static Record of(const CreationId& id, const std::string& what, ErrorKind kind = {}) {
      Record record{.id = id, .kind = static_cast<std::uint32_t>(kind), .what = {}};
      record.what.set(what);
      return record;
    }

    Error error() const {
      const bool is_known = kind <= static_cast<std::uint32_t>(ErrorKind::mismatch);
      return {is_known ? static_cast<ErrorKind>(kind) : ErrorKind::comm, what.get()};
    }
  };
  enum class Area : std::size_t { notices, refusals, failures };
  static constexpr std::size_t kNumKept = 4;

  // Notices of all ranks, then their refusals, then their failures.
  std::size_t offset_of(Area area, int rank, std::size_t slot = 0) const {
    const std::size_t per_rank = area == Area::failures ? kNumKept : 1;
    const auto num_ranks = static_cast<std::size_t>(segment_->size());
    const std::size_t index = static_cast<std::size_t>(area) * num_ranks +
                              static_cast<std::size_t>(rank) * per_rank + slot;
    return offset_ + index * sizeof(Record);
  }

  NotificationId notification_of(Area area) const {
    return first_ + static_cast<NotificationId>(area);
  }

  void write_own(std::size_t offset, const Record& record) {
    std::memcpy(segment_->local() + offset, &record, sizeof record);
  }

  // A rank to which nothing can be sent for long is stuck itself: its wait ends by its deadline.
  void to_others(const std::vector<int>& ranks, std::size_t num_messages, const auto& send_to) {
    const Deadline deadline(1.0);
    for (const int rank : ranks) {
      if (rank == segment_->rank()) continue;
      bool has_room = segment_->has_room(rank, num_messages);
      while (!has_room && !deadline.is_over()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        has_room = segment_->has_room(rank, num_messages);
      }
      if (has_room) send_to(rank);
    }
  }

  void send(const std::vector<int>& ranks, Area area, std::uint64_t value, const Record& record) {
    const std::size_t offset = offset_of(area, segment_->rank());
    write_own(offset, record);
    to_others(ranks, 2, [&](int rank) {
      segment_->put(rank, offset, offset, sizeof(Record));
      segment_->notify(rank, notification_of(area), value);
    });
  }

  Record read(std::size_t offset) const {
    Record record;
    std::memcpy(&record, segment_->local() + offset, sizeof record);
    return record;
  }

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
