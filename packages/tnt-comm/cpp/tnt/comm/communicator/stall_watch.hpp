#pragma once

#include <cstdint>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/communicator/stalls.hpp"
#include "tnt/comm/progress/engine.hpp"

namespace tnt::comm {

/// Reports one thread's wait for an operation when it stalls: when nothing has
/// come of it for `stall_report_s` since the thread began to wait. Once, unless
/// it goes on and stalls again; not at all while it is part of a stall that is
/// known (see Stalls).
///
/// What this rank does before it waits is no stall, however long the others
/// have been waited for by the operation, which goes on in the background.
class StallWatch {
 public:
  StallWatch(Engine& engine, Stalls& stalls, const CollectiveOperation& operation,
             std::uint32_t count, Clock::time_point start, double stall_report_s);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// To be called several times per second.
  void look();

 private:
  void look_while_paused();
  void begin_anew(Clock::time_point start);

  Engine& engine_;
  Stalls& stalls_;
  const CollectiveOperation& operation_;
  std::uint32_t count_;
  double stall_report_s_;
  Clock::time_point start_;
  bool is_reported_ = false;
};

}  // namespace tnt::comm
