#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Who has made a call, for reports of long waits.
///
/// Messages of a call go to few ranks each, so a rank that waits knows whose
/// message it lacks, but not whether that rank is late or waits itself. Those
/// who wait for a while therefore tell everybody that they are there; the ones
/// who did not are those that all wait for. Calls that are complete in time
/// send nothing.
///
/// Each member has a word for every other one, which that one puts its call
/// into: a notification of everybody for each of many buckets would be more than
/// networks have. A word that is still on its way when its source changes to a
/// later call arrives as that: also true.
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

}  // namespace tnt::comm
