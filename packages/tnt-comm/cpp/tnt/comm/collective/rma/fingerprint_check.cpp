#include "tnt/comm/collective/rma/fingerprint_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tnt::comm {
namespace {

/// What a member tells the others if the calls differ.
struct alignas(64) Entry {
  Descriptor descriptor;
  std::uint32_t note_bytes = 0;
  std::array<char, kMaxNoteBytes> note{};
};
static_assert(std::is_trivially_copyable_v<Entry>);

constexpr std::size_t kEntryBytes = sizeof(Entry);

constexpr std::size_t kTableNotifications = 1;

Entry& own_entry(Segment& segment, std::size_t offset) {
  return *reinterpret_cast<Entry*>(segment.local() + offset);
}

void set_note(Entry& entry, std::string_view note) {
  entry.note_bytes = static_cast<std::uint32_t>(std::min(note.size(), entry.note.size()));
  std::memcpy(entry.note.data(), note.data(), entry.note_bytes);
}

}  // namespace

std::size_t FingerprintCheck::num_bytes(int num_members) {
  return static_cast<std::size_t>(num_members) * kEntryBytes +
         FingerprintExchange::num_bytes(num_members) +
         ArrivalReport::memory_needs(num_members).num_bytes;
}

std::size_t FingerprintCheck::num_notifications(int num_members) {
  return kTableNotifications + FingerprintExchange::num_notifications(num_members);
}

FingerprintCheck::FingerprintCheck(std::shared_ptr<Segment> segment, std::size_t offset,
                                   NotificationId first_id)
    : segment_(std::move(segment)),
      table_offset_(offset),
      table_id_(first_id),
      exchange_(segment_, offset + static_cast<std::size_t>(segment_->size()) * kEntryBytes,
                first_id + kTableNotifications),
      arrival_report_(segment_, offset + static_cast<std::size_t>(segment_->size()) * kEntryBytes +
                                    FingerprintExchange::num_bytes(segment_->size())) {}

void FingerprintCheck::begin(Descriptor& descriptor) {
  descriptor.call_index = num_calls_;
  // Nothing is ever sent from here but once, at the end.
  own_entry(*segment_, entry_offset(segment_->rank())).descriptor = descriptor;
  exchange_.begin(num_calls_, descriptor);
  arrival_report_.begin(num_calls_);
  ++num_calls_;
}

bool FingerprintCheck::advance(const CallNote& note) {
  bool has_moved = exchange_.advance();
  if (!is_different() || is_refused_ || !note.is_given()) return has_moved;
  has_moved |= tell_all(note.text());
  // Everybody leaves with the same knowledge: who throws before it has told
  // all others would leave them with half of it.
  is_refused_ = num_told_ == segment_->size() - 1 && have_all_told();
  return has_moved || is_refused_;
}

bool FingerprintCheck::tell_all(std::string_view note) {
  constexpr std::size_t kMessages = 2;
  const int before = num_told_;
  const std::size_t offset = entry_offset(segment_->rank());
  if (num_told_ == 0) set_note(own_entry(*segment_, offset), note);
  while (num_told_ < segment_->size() - 1) {
    const int member = (segment_->rank() + 1 + num_told_) % segment_->size();
    if (!segment_->has_room(member, kMessages)) break;
    segment_->put(member, offset, offset, sizeof(Entry));
    // The group breaks with this, so it happens once.
    segment_->notify(member, table_id_, 1);
    ++num_told_;
  }
  return num_told_ > before;
}

bool FingerprintCheck::has_told(int member) const {
  return member == segment_->rank() || segment_->poll(member, table_id_) > 0;
}

bool FingerprintCheck::have_all_told() const {
  for (int member = 0; member < segment_->size(); ++member) {
    if (!has_told(member)) return false;
  }
  return true;
}

std::vector<MadeCall> FingerprintCheck::calls() const {
  std::vector<MadeCall> result;
  for (int member = 0; member < segment_->size(); ++member) {
    Entry entry;
    std::memcpy(&entry, segment_->local() + entry_offset(member), sizeof entry);
    const std::size_t note_bytes = std::min<std::size_t>(entry.note_bytes, entry.note.size());
    result.push_back({entry.descriptor, std::string(entry.note.data(), note_bytes)});
  }
  return result;
}

void FingerprintCheck::append_missing(std::vector<int>& members) const {
  exchange_.append_missing(members);
  if (!is_different()) return;
  for (int member = 0; member < segment_->size(); ++member) {
    if (!has_told(member)) members.push_back(member);
  }
}

std::size_t FingerprintCheck::entry_offset(int member) const {
  return table_offset_ + static_cast<std::size_t>(member) * kEntryBytes;
}

}  // namespace tnt::comm
