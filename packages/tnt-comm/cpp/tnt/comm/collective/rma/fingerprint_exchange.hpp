#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Whether all members make the same call, and how much each contributes,
/// found out with one small message per round and rank.
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
/// Calls use the records alternately: who has finished one call's fingerprint exchange
/// knows that all have begun it, so that the one before is over everywhere.
class FingerprintExchange {
 public:
  static std::size_t num_rounds(int num_members);
  static std::size_t num_bytes(int num_members);
  static std::size_t num_notifications(int num_members) { return num_rounds(num_members); }

  FingerprintExchange(std::shared_ptr<Segment> segment, std::size_t offset,
                      NotificationId first_id);

  /// Call number `call` (from 0, one after the other). Counts, n numbers per rank, are spread only
  /// where they may differ.
  void begin(std::uint64_t call, const Descriptor& descriptor);

  /// Does what can be done without waiting; true if that was anything.
  bool advance();
  bool is_complete() const { return round_ == num_rounds_; }

  /// When complete: whether all calls are alike, and what each contributes.
  bool is_uniform() const { return is_uniform_; }
  std::uint64_t count_of(int member) const;

  /// Appends the member whose message is waited for.
  void append_missing(std::vector<int>& members) const;

 private:
  struct Record {
    std::uint64_t fingerprint;
    std::uint64_t is_uniform;
  };

  int partner(int distance) const { return (rank_ + distance + size_) % size_; }
  int distance() const { return 1 << round_; }
  bool has_arrived() const;
  void send();
  void send_counts(int to);
  void receive();
  std::size_t begin_of_call() const;
  std::size_t record_offset(std::size_t round, bool is_incoming) const;
  std::size_t count_offset(int member) const;

  std::shared_ptr<Segment> segment_;
  std::size_t offset_;
  NotificationId id_;
  int rank_;
  int size_;
  std::size_t num_rounds_;
  std::size_t round_;  // none under way at first
  std::uint64_t call_ = 0;
  std::uint64_t fingerprint_ = 0;
  bool is_uniform_ = true;
  bool shares_counts_ = false;
  bool is_sent_ = false;  // the round's message
};

}  // namespace tnt::comm
