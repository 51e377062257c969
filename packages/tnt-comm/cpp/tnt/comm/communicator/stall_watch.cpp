#include "tnt/comm/communicator/stall_watch.hpp"

#include <utility>

namespace tnt::comm {

StallWatch::StallWatch(Engine& engine, Stalls& stalls, const CollectiveOperation& operation,
                       std::uint32_t count, Clock::time_point start, double stall_report_s)
    : engine_(engine),
      stalls_(stalls),
      operation_(operation),
      count_(count),
      stall_report_s_(stall_report_s),
      start_(start) {}

StallWatch::~StallWatch() {
  if (is_reported_) stalls_.end(this);
}

void StallWatch::look() {
  if (seconds_since(start_) < stall_report_s_ && stalls_.empty()) return;
  engine_.while_paused([this] {
    if (!operation_.completion().has_reached(count_)) look_while_paused();
  });
}

void StallWatch::look_while_paused() {
  // All operations of an engine are collective ones.
  const auto& first = static_cast<const CollectiveOperation&>(engine_.first_before(operation_));
  if (first.last_progress() > start_) begin_anew(first.last_progress());
  std::vector<int> ranks = first.awaited_ranks();
  if (is_reported_) return stalls_.set(this, std::move(ranks));
  if (stalls_.cover(this, ranks)) return begin_anew(Clock::now());
  const double waited_s = seconds_since(start_);
  if (waited_s < stall_report_s_) return;
  is_reported_ = true;
  stalls_.set(this, std::move(ranks));
  first.report_wait(waited_s);
}

void StallWatch::begin_anew(Clock::time_point start) {
  start_ = start;
  if (is_reported_) stalls_.end(this);
  is_reported_ = false;
}

}  // namespace tnt::comm
