#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Who has made a call, for reports of long waits.
///
/// Messages of a call go to few ranks each, so a rank that waits knows whose message it lacks, but
/// not whether that rank is late or waits itself. Those who wait for a while therefore tell
/// everybody that they are there; the ones who did not are those that all wait for. Calls that are
/// complete in time send nothing.
///
/// Each member has a word for every other one, which that one puts its call into: a notification of
/// everybody for each of many buckets would be more than networks have. A word that is still on its
/// way when its source changes to a later call arrives as that: also true.
class ArrivalReport {
 public:
  static MemoryNeeds memory_needs(int num_members) {
    return {
        round_up(static_cast<std::size_t>(num_members) * sizeof(std::uint64_t), kCacheLineBytes),
        0};
  }

  /// The memory begins at the offset.
  ArrivalReport(std::shared_ptr<Segment> segment, std::size_t offset)
      : segment_(std::move(segment)), offset_(offset) {}

  /// This rank makes a call; calls are numbered from 0.
  void begin(std::uint64_t call) {
    call_ = call;
    begin_ = Clock::now();
    num_told_ = 0;
  }

  /// Says so to everybody if that is due.
  void answer_if_waiting() {
    constexpr auto kBackoff = std::chrono::milliseconds(100);
    const int size = segment_->size();
    if (num_told_ == size - 1 || Clock::now() - begin_ < kBackoff) return;
    const std::size_t own = word_offset(segment_->rank());
    word(segment_->rank()).store(call_ + 1, std::memory_order_relaxed);
    for (; num_told_ < size - 1; ++num_told_) {
      const int member = (segment_->rank() + 1 + num_told_) % size;
      if (!segment_->has_room(member, 1)) break;
      segment_->put(member, own, own, sizeof(std::uint64_t));
    }
    segment_->flush();
  }

  /// Whether the member is known to have made the call that this rank makes.
  bool is_present(int member) const {
    // Nothing else is read because of it, so the order of loads does not matter.
    return member == segment_->rank() || word(member).load(std::memory_order_relaxed) > call_;
  }

 private:
  std::size_t word_offset(int member) const {
    return offset_ + static_cast<std::size_t>(member) * sizeof(std::uint64_t);
  }
  // Calls that the member has told of; atomic, since the network writes it.
  std::atomic_ref<std::uint64_t> word(int member) const {
    return std::atomic_ref<std::uint64_t>(
        *reinterpret_cast<std::uint64_t*>(segment_->local() + word_offset(member)));
  }

  std::shared_ptr<Segment> segment_;
  std::size_t offset_;
  std::uint64_t call_ = 0;
  Clock::time_point begin_ = Clock::now();
  int num_told_ = 0;
};

/// Makes sure that all members of a group make the same calls, in the same order, and finds out
/// how much each contributes, with one small message per round and rank. Only if calls differ,
/// there is a second phase in which all tell all what they call.
///
/// Dissemination: in round k a rank tells the one 2^k further on and hears the
/// one 2^k before. After ceil(log2 n) rounds everybody has heard, directly or
/// not, of everybody: so this is also the barrier.
///
/// A message carries a fingerprint of the call and whether all that the sender has
/// heard of so far was like it. Who hears of another fingerprint, or of somebody who
/// did, says so from then on. News of rank j reaches rank i along some path; if
/// their fingerprints differ, two neighbours on it differ and the rest of the path
/// carries that. So if any two calls differ, *every* rank learns that they do.
///
/// Calls use the records alternately: who has finished one call's rounds knows that all have
/// begun it, so that the one before is over everywhere.
class FingerprintCheck {
 public:
  static MemoryNeeds memory_needs(int num_members) {
    return {report_offset(num_members) + ArrivalReport::memory_needs(num_members).num_bytes,
            kTableNotifications + rounds_among(num_members)};
  }

  FingerprintCheck(std::shared_ptr<Segment> segment, std::size_t offset, NotificationId first_id)
      : segment_(std::move(segment)),
        offset_(offset),
        id_(first_id),
        arrival_report_(segment_, offset + report_offset(size_)),
        num_rounds_(rounds_among(size_)),
        round_(num_rounds_) {}

  /// The next call: fills in its number. Counts, n numbers per rank, are spread only where they may
  /// differ.
  void begin(Descriptor& descriptor) {
    arrival_report_.begin(num_calls_);
    descriptor.call_index = num_calls_++;
    // Nothing is ever sent from here but once, at the end.
    reinterpret_cast<Entry*>(segment_->local() + entry_offset(rank_))->descriptor = descriptor;
    fingerprint_ = descriptor.fingerprint();
    shares_counts_ = traits_of(descriptor.kind).takes_any_count();
    is_uniform_ = true;
    is_sent_ = false;
    round_ = 0;
    std::memcpy(segment_->local() + count_offset(rank_), &descriptor.count,
                sizeof descriptor.count);
  }

  /// Does what can be done without waiting; true if that was anything. `note` is the call's.
  bool advance(const CallNote& note) {
    bool has_moved = advance_rounds();
    const bool is_different = have_all_called() && !is_uniform_;
    if (!is_different || is_refused_ || !note.is_given()) return has_moved;
    has_moved |= tell_all(note.text());
    // Everybody leaves with the same knowledge: who throws before it has told
    // all others would leave them with half of it.
    is_refused_ = num_told_ == size_ - 1 && silent_members().empty();
    return has_moved || is_refused_;
  }

  /// Sends what advance() has left to go with other messages through the segment.
  void flush() { segment_->flush(); }

  /// All have made the call, and the same one.
  bool is_reached() const { return have_all_called() && is_uniform_; }

  /// The calls differ, and it is known how.
  bool is_refused() const { return is_refused_; }

  /// When refused: what each member calls.
  std::vector<MadeCall> calls() const {
    std::vector<MadeCall> result;
    for (int member = 0; member < size_; ++member) {
      Entry entry;
      std::memcpy(&entry, segment_->local() + entry_offset(member), sizeof entry);
      const std::size_t note_bytes = std::min<std::size_t>(entry.note_bytes, entry.note.size());
      result.push_back({entry.descriptor, std::string(entry.note.data(), note_bytes)});
    }
    return result;
  }

  /// When reached, where members may contribute any count: what each member contributes.
  std::uint64_t count_of(int member) const {
    std::uint64_t count = 0;
    std::memcpy(&count, segment_->local() + count_offset(member), sizeof count);
    return count;
  }

  /// Appends the members whose message is waited for.
  void append_missing(std::vector<int>& members) const {
    if (!have_all_called()) {
      if (!has_arrived()) members.push_back(partner(-distance()));
    } else if (!is_uniform_) {
      const std::vector<int> silent = silent_members();
      members.insert(members.end(), silent.begin(), silent.end());
    }
  }

  ArrivalReport& arrival_report() { return arrival_report_; }

 private:
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
  static constexpr std::size_t kRecordBytes = kCacheLineBytes;
  static constexpr std::size_t kCalls = 2;
  static constexpr std::size_t kTableNotifications = 1;

  static std::size_t rounds_among(int num_members) {
    return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(num_members - 1)));
  }

  static std::size_t bytes_of_call(int num_members) {
    const std::size_t counts = static_cast<std::size_t>(num_members) * sizeof(std::uint64_t);
    return 2 * rounds_among(num_members) * kRecordBytes + round_up(counts, kRecordBytes);
  }

  // The table of entries, the records of calls, and the report lie behind each other.
  static std::size_t table_bytes(int num_members) {
    return static_cast<std::size_t>(num_members) * sizeof(Entry);
  }
  static std::size_t report_offset(int num_members) {
    return table_bytes(num_members) + kCalls * bytes_of_call(num_members);
  }

  bool have_all_called() const { return round_ == num_rounds_; }
  int partner(int distance) const { return (rank_ + distance + size_) % size_; }
  int distance() const { return 1 << round_; }

  bool advance_rounds() {
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

  bool has_arrived() const {
    return segment_->poll(partner(-distance()), id_ + kTableNotifications + round_) >= num_calls_;
  }

  void send() {
    const int to = partner(distance());
    const Record record{fingerprint_, is_uniform_ ? 1U : 0U};
    const std::size_t source = record_offset(round_, false);
    std::memcpy(segment_->local() + source, &record, sizeof record);
    segment_->put(to, record_offset(round_, true), source, sizeof record);
    if (shares_counts_) send_counts(to);
    segment_->notify_later(to, id_ + kTableNotifications + round_, num_calls_);
  }

  // Before round k a rank knows the 2^k counts up to its own. In the last round fewer are lacking.
  void send_counts(int to) {
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

  void receive() {
    Record record;
    std::memcpy(&record, segment_->local() + record_offset(round_, true), sizeof record);
    is_uniform_ = is_uniform_ && record.is_uniform != 0 && record.fingerprint == fingerprint_;
  }

  std::size_t record_offset(std::size_t round, bool is_incoming) const {
    return offset_ + table_bytes(size_) + num_calls_ % kCalls * bytes_of_call(size_) +
           (2 * round + (is_incoming ? 1U : 0U)) * kRecordBytes;
  }

  std::size_t count_offset(int member) const {
    return record_offset(num_rounds_, false) +
           static_cast<std::size_t>(member) * sizeof(std::uint64_t);
  }

  bool tell_all(std::string_view note) {
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

  std::vector<int> silent_members() const {
    return ranks_where(
        size_, [this](int member) { return member != rank_ && segment_->poll(member, id_) == 0; });
  }

  std::size_t entry_offset(int member) const {
    return offset_ + static_cast<std::size_t>(member) * sizeof(Entry);
  }

  std::shared_ptr<Segment> segment_;
  std::size_t offset_;
  NotificationId id_;
  int rank_ = segment_->rank();
  int size_ = segment_->size();
  ArrivalReport arrival_report_;
  std::uint64_t num_calls_ = 0;  // the one under way included
  std::size_t num_rounds_;
  std::size_t round_;  // none under way at first
  std::uint64_t fingerprint_ = 0;
  bool is_uniform_ = true;
  bool shares_counts_ = false;
  bool is_sent_ = false;  // the round's message
  int num_told_ = 0;
  bool is_refused_ = false;
};

}  // namespace tnt::comm
