#include "tnt/comm/collective/abort_state.hpp"

#include <cstring>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

bool is_silent(const PeerStatus& status) {
  // Engines show a sign of life four times per second; this many missed ones
  // mean that the process is stopped or swapped out.
  constexpr double kSilenceMeansStoppedS = 2.0;
  return status.heartbeat_age_s > kSilenceMeansStoppedS;
}

// What one member tells another about why it gave up.
struct AbortState::Report {
  std::uint32_t kind;
  char what[1020];
};

std::size_t AbortState::num_bytes(std::size_t num_members) {
  return num_members * sizeof(Report);
}

void AbortState::require_intact() {
  refuse_forked_child();
  if (!is_broken()) {
    try {
      check_failures_of_others();
      return;
    } catch (const Error& error) {
      fail(error);
    }
  }
  throw Error(first_error_->kind(),
              text("rank ", world_rank(), ": group '", group_name_,
                   "' is broken since an earlier error and cannot be used any more; end the"
                   " program or restart it from a checkpoint. The first error was: ",
                   first_error_->what()),
              first_error_->cause_rank());
}

void AbortState::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (is_broken()) return;
  first_error_ = error;
  is_broken_.store(true, std::memory_order_release);
  Report report{};
  report.kind = static_cast<std::uint32_t>(error.kind());
  const std::string_view beginning = first_bytes(error.what(), sizeof report.what - 1);
  std::memcpy(report.what, beginning.data(), beginning.size());
  const std::size_t offset = static_cast<std::size_t>(segment_->rank()) * sizeof(Report);
  std::memcpy(segment_->local() + offset, &report, sizeof report);
  for (int member = 0; member < segment_->size(); ++member) {
    // Without room the member is stuck itself, and this rank must not be as well:
    // it will be known as failed when it leaves. The report stays as it is, so
    // nobody has to wait until it has been sent.
    if (member == segment_->rank() || !segment_->has_room(member, 2)) continue;
    segment_->put(member, offset, offset, sizeof report);
    segment_->notify(member, kNotification, 1);
  }
}

std::optional<Error> AbortState::failure_of_others() const {
  for (int member = 0; member < segment_->size(); ++member) {
    if (member == segment_->rank() || segment_->poll(member, kNotification) == 0) continue;
    Report report;
    const std::size_t offset = static_cast<std::size_t>(member) * sizeof(Report);
    std::memcpy(&report, segment_->local() + offset, sizeof report);
    const auto kind = static_cast<ErrorKind>(report.kind);
    // A mismatch is everybody's; for the rest, the other rank is what is lost.
    return Error(kind == ErrorKind::mismatch ? kind : ErrorKind::peer_lost,
                 text("rank ", world_rank(), ": group '", group_name_, "' was given up by rank ",
                      world_rank_of(member), ", which reports: ",
                      std::string(report.what, ::strnlen(report.what, sizeof report.what))),
                 world_rank_of(member));
  }
  return std::nullopt;
}

}  // namespace tnt::comm
