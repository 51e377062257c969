#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/transport/segment.hpp"

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
  static MemoryNeeds memory_needs(int num_members);

  /// The memory begins at the offset.
  ArrivalReport(std::shared_ptr<Segment> segment, std::size_t offset);

  /// This rank makes a call; calls are numbered from 0.
  void begin(std::uint64_t call);

  /// Says so to everybody if that is due; true if something was sent.
  bool answer_if_waiting();

  /// Whether the member is known to have made the call that this rank makes.
  bool is_present(int member) const;

 private:
  std::size_t word_offset(int member) const;
  // Calls that the member has told of; atomic, since the network writes it.
  std::atomic_ref<std::uint64_t> word(int member) const;

  std::shared_ptr<Segment> segment_;
  std::size_t offset_;
  std::uint64_t call_ = 0;
  Clock::time_point begin_ = Clock::now();
  int num_told_ = 0;
};

}  // namespace tnt::comm
