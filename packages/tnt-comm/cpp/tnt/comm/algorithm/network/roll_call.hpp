#pragma once

#include <cstdint>
#include <memory>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Who has made a call, for reports of long waits.
///
/// Messages of a call go to few ranks each, so a rank that waits knows whose
/// message it lacks, but not whether that rank is late or waits itself. Those
/// who wait for a while therefore tell everybody that they are there; the ones
/// who did not are those that all wait for. Calls that are complete in time
/// send nothing.
class RollCall {
 public:
  static constexpr std::size_t kNumNotifications = 1;

  RollCall(std::shared_ptr<Segment> segment, NotificationId id);

  /// This rank makes a call; calls are numbered from 0.
  void begin(std::uint64_t call);

  /// Says so to everybody if that is due; true if something was sent.
  bool answer_if_waiting();

  /// Whether the member is known to have made the call that this rank makes.
  bool is_present(int member) const;

 private:
  std::shared_ptr<Segment> segment_;
  NotificationId id_;
  std::uint64_t call_ = 0;
  Clock::time_point begin_ = Clock::now();
  int num_told_ = 0;
};

}  // namespace tnt::comm
