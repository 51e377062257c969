#include "tnt/comm/communicator/timeline_keeper.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr int kNumRounds = 16;

constexpr auto kLookForEndInterval = std::chrono::milliseconds(250);

std::int64_t of_first_member(Group& group, std::int64_t own) {
  const std::string digits = group.gather_texts(text(own), "a common time").front();
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < kNumRounds; ++round) {
    const std::int64_t begin = now_ns();
    const std::int64_t first_begin = of_first_member(group, begin);
    const std::int64_t end = now_ns();
    const std::int64_t first_end = of_first_member(group, end);
    least = std::max(least, first_begin - end);
    most = std::min(most, first_end - begin);
  }
  if (group.rank() == 0) return {};
  return {least + (most - least) / 2, (most - least + 1) / 2};
}

TimelineKeeper::TimelineKeeper(const Environment& environment, std::shared_ptr<Monitor> monitor,
                               Transport& transport)
    : monitor_(std::move(monitor)), transport_(transport) {
  info_.rank = environment.rank;
  info_.size = environment.size;
  info_.host = host_name();
  try {
    place_ = trace_paths(environment.timeline, environment.job_id);
    require_place_for_part(place_.parts, info_.rank);
    // Else an old trace could be taken for that of a job that was killed. Its mode stays.
    if (info_.rank == 0 && place_.is_replaced && std::filesystem::exists(place_.path)) {
      write_atomically(place_.path, "");
    }
    write_atomically(part_path(place_.parts, info_.rank), render_part(*monitor_->timeline, info_));
  } catch (const std::exception& error) {
    throw UsageError(text("rank ", info_.rank, ": no timeline can be written to TNT_TIMELINE='",
                          environment.timeline, "': ", error.what(),
                          " Name a file in a folder that exists and is writable on all hosts."));
  }
}

void TimelineKeeper::look() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookForEndInterval;
  const Others others = look_at_others();
  const bool is_news =
      (others.has_one_ended && !has_seen_end_) || (others.has_one_failed && !has_seen_failure_);
  if (!is_news) return;
  has_seen_end_ = true;
  has_seen_failure_ = others.has_one_failed;
  write(PartState::partial);
  if (others.has_one_failed) merge(false);
}

void TimelineKeeper::join(bool has_failed) {
  const Others others = look_at_others();
  if (!others.is_one_running || others.has_one_failed || has_failed) {
    merge(!others.is_one_running);
  }
}

TimelineKeeper::Others TimelineKeeper::look_at_others() const {
  Others others;
  for (int rank = 0; rank < info_.size; ++rank) {
    if (rank == info_.rank) continue;
    const PeerState state = transport_.status_of(rank).state;
    const bool is_running = state == PeerState::running || state == PeerState::starting;
    others.is_one_running |= is_running;
    others.has_one_ended |= !is_running;
    others.has_one_failed |=
        state == PeerState::failed || state == PeerState::dead || state == PeerState::vanished;
  }
  return others;
}

void TimelineKeeper::write(PartState state) {
  warn_on_error([&] {
    const std::lock_guard lock(mutex_);
    if (info_.state == PartState::complete) return;
    info_.state = state;
    write_atomically(part_path(place_.parts, info_.rank), render_part(*monitor_->timeline, info_));
  });
}

void TimelineKeeper::merge(bool has_ended) {
  warn_on_error(
      [&] { merge_parts(place_, info_.size, now_ns() + info_.clock_offset_ns, has_ended); });
}

void TimelineKeeper::warn_on_error(const std::function<void()>& action) const {
  try {
    action();
  } catch (const std::exception& error) {
    log_warning(info_.rank, text("the timeline (TNT_TIMELINE) is not complete: ", error.what()));
  }
}

}  // namespace tnt::comm
