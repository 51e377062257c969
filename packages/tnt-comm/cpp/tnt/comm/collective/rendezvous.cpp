#include "tnt/comm/collective/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

constexpr double kRoomS = 1.0;
constexpr auto kPollInterval = std::chrono::microseconds(100);

}  // namespace

struct Rendezvous::Record {
  CreationId id;
  std::uint32_t kind;  // of the error, if it is one
  std::array<char, 1004> what;

  static Record of(const CreationId& id, const std::string& what, ErrorKind kind = {}) {
    Record record{.id = id, .kind = static_cast<std::uint32_t>(kind), .what = {}};
    const std::string_view beginning = first_bytes(what, record.what.size() - 1);
    std::memcpy(record.what.data(), beginning.data(), beginning.size());
    return record;
  }

  std::string text() const { return {what.data(), ::strnlen(what.data(), what.size())}; }
  Error error() const {
    const bool is_known = kind <= static_cast<std::uint32_t>(ErrorKind::mismatch);
    return {is_known ? static_cast<ErrorKind>(kind) : ErrorKind::comm, text()};
  }
};

Error creation_failure(const std::string& title, int rank, const Error& error) {
  const ErrorKind kind = error.kind() == ErrorKind::usage ? ErrorKind::comm : error.kind();
  return {kind, text(title, " could not be created, since rank ", rank, " failed: ", error.what()),
          rank};
}

std::size_t Rendezvous::num_bytes(std::size_t num_ranks) {
  return (2 + kNumKept) * num_ranks * sizeof(Record);
}

// A rank to which nothing can be sent for long is stuck itself: its wait ends by its deadline.
void Rendezvous::to_others(const std::vector<int>& ranks, std::size_t num_messages,
                           const auto& send_to) {
  const Deadline deadline(kRoomS);
  for (const int rank : ranks) {
    if (rank == segment_->rank()) continue;
    bool has_room = segment_->has_room(rank, num_messages);
    while (!has_room && !deadline.is_over()) {
      std::this_thread::sleep_for(kPollInterval);
      has_room = segment_->has_room(rank, num_messages);
    }
    if (has_room) send_to(rank);
  }
}

void Rendezvous::begin(const CreationId& id) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& num_begun = num_begun_[id.members];
  num_begun = std::max(num_begun, id.use + 1);
}

void Rendezvous::tell(const std::vector<int>& members, const CreationId& id,
                      const std::string& title) {
  const std::lock_guard lock(mutex_);
  if (!told_.empty()) return;
  told_id_ = id;
  told_ = members;
  send(told_, Area::notices, ++num_told_, Record::of(id, title));
}

void Rendezvous::withdraw(const CreationId& id) {
  const std::lock_guard lock(mutex_);
  if (told_.empty() || !(told_id_ == id)) return;
  ++num_told_;
  to_others(told_, 1, [this](int rank) {
    segment_->notify(rank, notification_of(Area::notices), num_told_);
  });
  told_.clear();
}

std::optional<std::string> Rendezvous::awaited_by(int rank) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t num_told = segment_->poll(rank, notification_of(Area::notices));
  if (num_told % 2 == 0) return {};
  const Record record = read(offset_of(Area::notices, rank));
  // It may have been withdrawn, and another one be written, in the meantime.
  if (segment_->poll(rank, notification_of(Area::notices)) != num_told) return {};
  const auto begun = num_begun_.find(record.id.members);
  if (begun != num_begun_.end() && begun->second > record.id.use) return {};
  return record.text();
}

void Rendezvous::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (has_refused_) return;
  std::vector<int> all(static_cast<std::size_t>(segment_->size()));  // may throw
  std::iota(all.begin(), all.end(), 0);
  has_refused_ = true;
  send(all, Area::refusals, 1, Record::of({}, reason));
}

std::optional<std::string> Rendezvous::refusal() const {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < segment_->size(); ++rank) {
    if (rank == segment_->rank()) continue;
    if (segment_->poll(rank, notification_of(Area::refusals)) == 0) continue;
    return read(offset_of(Area::refusals, rank)).text();
  }
  return {};
}

void Rendezvous::fail(const std::vector<int>& members, const CreationId& id, const Error& error) {
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

std::optional<Error> Rendezvous::failure_of_others(const std::vector<int>& members,
                                                   const CreationId& id,
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

// Notices of all ranks, then their refusals, then their failures.
std::size_t Rendezvous::offset_of(Area area, int rank, std::size_t slot) const {
  const std::size_t per_rank = area == Area::failures ? kNumKept : 1;
  const auto num_ranks = static_cast<std::size_t>(segment_->size());
  const std::size_t index =
      static_cast<std::size_t>(area) * num_ranks + static_cast<std::size_t>(rank) * per_rank + slot;
  return offset_ + index * sizeof(Record);
}

void Rendezvous::write_own(std::size_t offset, const Record& record) {
  std::memcpy(segment_->local() + offset, &record, sizeof record);
}

void Rendezvous::send(const std::vector<int>& ranks, Area area, std::uint64_t value,
                      const Record& record) {
  const std::size_t offset = offset_of(area, segment_->rank());
  write_own(offset, record);
  to_others(ranks, 2, [&](int rank) {
    segment_->put(rank, offset, offset, sizeof(Record));
    segment_->notify(rank, notification_of(area), value);
  });
}

Rendezvous::Record Rendezvous::read(std::size_t offset) const {
  Record record;
  std::memcpy(&record, segment_->local() + offset, sizeof record);
  return record;
}

}  // namespace tnt::comm
