#include "tnt/comm/collective/rma/fingerprint_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tnt::comm {
namespace {

/// What a member tells the others if the calls differ.
struct alignas(kCacheLineBytes) Entry {
  Descriptor descriptor;
  std::uint32_t note_bytes = 0;
  std::array<char, kMaxNoteBytes> note{};
};
static_assert(std::is_trivially_copyable_v<Entry>);

struct Record {
  std::uint64_t fingerprint;
  std::uint64_t is_uniform;
};

// Sources and targets of different rounds share no cache line.
constexpr std::size_t kRecordBytes = kCacheLineBytes;
constexpr std::size_t kCalls = 2;

constexpr std::size_t kTableNotifications = 1;

std::size_t rounds_among(int num_members) {
  return std::bit_width(static_cast<unsigned>(num_members - 1));
}

std::size_t bytes_of_call(int num_members) {
  const std::size_t counts = static_cast<std::size_t>(num_members) * sizeof(std::uint64_t);
  return 2 * rounds_among(num_members) * kRecordBytes + round_up(counts, kRecordBytes);
}

// The table of entries, the records of calls, and the report lie behind each other.
std::size_t table_bytes(int num_members) {
  return static_cast<std::size_t>(num_members) * sizeof(Entry);
}

std::size_t report_offset(int num_members) {
  return table_bytes(num_members) + kCalls * bytes_of_call(num_members);
}

}  // namespace

MemoryNeeds FingerprintCheck::memory_needs(int num_members) {
  return {report_offset(num_members) + ArrivalReport::memory_needs(num_members).num_bytes,
          kTableNotifications + rounds_among(num_members)};
}

FingerprintCheck::FingerprintCheck(std::shared_ptr<Segment> segment, std::size_t offset,
                                   NotificationId first_id)
    : segment_(std::move(segment)),
      offset_(offset),
      id_(first_id),
      arrival_report_(segment_, offset + report_offset(size_)),
      num_rounds_(rounds_among(size_)),
      round_(num_rounds_) {}

void FingerprintCheck::begin(Descriptor& descriptor) {
  arrival_report_.begin(num_calls_);
  descriptor.call_index = num_calls_++;
  // Nothing is ever sent from here but once, at the end.
  reinterpret_cast<Entry*>(segment_->local() + entry_offset(rank_))->descriptor = descriptor;
  fingerprint_ = descriptor.fingerprint();
  shares_counts_ = traits_of(descriptor.kind).takes_any_count();
  is_uniform_ = true;
  is_sent_ = false;
  round_ = 0;
  std::memcpy(segment_->local() + count_offset(rank_), &descriptor.count, sizeof descriptor.count);
}

bool FingerprintCheck::advance(const CallNote& note) {
  bool has_moved = advance_rounds();
  const bool is_different = have_all_called() && !is_uniform_;
  if (!is_different || is_refused_ || !note.is_given()) return has_moved;
  has_moved |= tell_all(note.text());
  // Everybody leaves with the same knowledge: who throws before it has told
  // all others would leave them with half of it.
  is_refused_ = num_told_ == size_ - 1 && silent_members().empty();
  return has_moved || is_refused_;
}

bool FingerprintCheck::advance_rounds() {
  constexpr std::size_t kMostMessages = 4;  // record, counts in two blocks, notification
  bool has_moved = false;
  while (!have_all_called()) {
    if (!is_sent_) {
      if (!segment_->has_room(partner(distance()), kMostMessages)) return has_moved;
      send();
      is_sent_ = true;
      return true;  // to look for others' messages first would hold up this one
    }
    if (!has_arrived()) return has_moved;
    receive();
    ++round_;
    is_sent_ = false;
    has_moved = true;
  }
  return has_moved;
}

void FingerprintCheck::send() {
  const int to = partner(distance());
  const Record record{fingerprint_, is_uniform_ ? 1U : 0U};
  const std::size_t source = record_offset(round_, false);
  std::memcpy(segment_->local() + source, &record, sizeof record);
  segment_->put(to, record_offset(round_, true), source, sizeof record);
  if (shares_counts_) send_counts(to);
  segment_->notify_later(to, id_ + kTableNotifications + round_, num_calls_);
}

// Before round k a rank knows the 2^k counts up to its own. The last round's receiver lacks fewer.
void FingerprintCheck::send_counts(int to) {
  const int num_counts = std::min(distance(), size_ - distance());
  const int first = partner(1 - num_counts);
  const int until_end = std::min(num_counts, size_ - first);
  const auto put = [&](int begin, int count) {
    if (count == 0) return;
    segment_->put(to, count_offset(begin), count_offset(begin),
                  static_cast<std::size_t>(count) * sizeof(std::uint64_t));
  };
  put(first, until_end);
  put(0, num_counts - until_end);
}

bool FingerprintCheck::has_arrived() const {
  return segment_->poll(partner(-distance()), id_ + kTableNotifications + round_) >= num_calls_;
}

void FingerprintCheck::receive() {
  Record record;
  std::memcpy(&record, segment_->local() + record_offset(round_, true), sizeof record);
  is_uniform_ = is_uniform_ && record.is_uniform != 0 && record.fingerprint == fingerprint_;
}

std::uint64_t FingerprintCheck::count_of(int member) const {
  std::uint64_t count = 0;
  std::memcpy(&count, segment_->local() + count_offset(member), sizeof count);
  return count;
}

std::size_t FingerprintCheck::record_offset(std::size_t round, bool is_incoming) const {
  return offset_ + table_bytes(size_) + num_calls_ % kCalls * bytes_of_call(size_) +
         (2 * round + (is_incoming ? 1U : 0U)) * kRecordBytes;
}

std::size_t FingerprintCheck::count_offset(int member) const {
  return record_offset(num_rounds_, false) +
         static_cast<std::size_t>(member) * sizeof(std::uint64_t);
}

bool FingerprintCheck::tell_all(std::string_view note) {
  constexpr std::size_t kMessages = 2;
  const int before = num_told_;
  const std::size_t offset = entry_offset(rank_);
  if (num_told_ == 0) {
    Entry& own = *reinterpret_cast<Entry*>(segment_->local() + offset);
    own.note_bytes = static_cast<std::uint32_t>(note.copy(own.note.data(), own.note.size()));
  }
  for (; num_told_ < size_ - 1; ++num_told_) {
    const int member = partner(1 + num_told_);
    if (!segment_->has_room(member, kMessages)) break;
    segment_->put(member, offset, offset, sizeof(Entry));
    // The group breaks with this, so it happens once.
    segment_->notify(member, id_, 1);
  }
  return num_told_ > before;
}

std::vector<int> FingerprintCheck::silent_members() const {
  std::vector<int> members;
  for (int member = 0; member < size_; ++member) {
    if (member != rank_ && segment_->poll(member, id_) == 0) members.push_back(member);
  }
  return members;
}

std::vector<MadeCall> FingerprintCheck::calls() const {
  std::vector<MadeCall> result;
  for (int member = 0; member < size_; ++member) {
    Entry entry;
    std::memcpy(&entry, segment_->local() + entry_offset(member), sizeof entry);
    const std::size_t note_bytes = std::min<std::size_t>(entry.note_bytes, entry.note.size());
    result.push_back({entry.descriptor, std::string(entry.note.data(), note_bytes)});
  }
  return result;
}

void FingerprintCheck::append_missing(std::vector<int>& members) const {
  if (!have_all_called()) {
    if (!has_arrived()) members.push_back(partner(-distance()));
  } else if (!is_uniform_) {
    const std::vector<int> silent = silent_members();
    members.insert(members.end(), silent.begin(), silent.end());
  }
}

std::size_t FingerprintCheck::entry_offset(int member) const {
  return offset_ + static_cast<std::size_t>(member) * sizeof(Entry);
}

}  // namespace tnt::comm
