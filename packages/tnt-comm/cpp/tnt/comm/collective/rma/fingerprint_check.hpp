#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/waiting.hpp"
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
  static MemoryNeeds memory_needs(int num_members);

  FingerprintCheck(std::shared_ptr<Segment> segment, std::size_t offset, NotificationId first_id);

  /// The next call: fills in its number. Counts, n numbers per rank, are spread only
  /// where they may differ.
  void begin(Descriptor& descriptor);

  /// Does what can be done without waiting; true if that was anything. `note` is the call's.
  bool advance(const CallNote& note);

  /// Sends what advance() has left to go with other messages through the segment.
  void flush() { segment_->flush(); }

  /// All have made the call, and the same one.
  bool is_reached() const { return have_all_called() && is_uniform_; }

  /// The calls differ, and it is known how.
  bool is_refused() const { return is_refused_; }
  /// When refused: what each member calls.
  std::vector<MadeCall> calls() const;

  /// When reached, where members may contribute any count: what each member contributes.
  std::uint64_t count_of(int member) const;

  /// Appends the members whose message is waited for.
  void append_missing(std::vector<int>& members) const;

  ArrivalReport& arrival_report() { return arrival_report_; }

 private:
  bool have_all_called() const { return round_ == num_rounds_; }
  int partner(int distance) const { return (rank_ + distance + size_) % size_; }
  int distance() const { return 1 << round_; }
  bool advance_rounds();
  bool has_arrived() const;
  void send();
  void send_counts(int to);
  void receive();
  std::size_t record_offset(std::size_t round, bool is_incoming) const;
  std::size_t count_offset(int member) const;

  bool tell_all(std::string_view note);
  std::vector<int> silent_members() const;
  std::size_t entry_offset(int member) const;

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
