#include "tnt/comm/collective/collectives.hpp"

#include <algorithm>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

// What the report of a wait ends with if all that is missing is that ranks, which run, make the
// call.
constexpr std::string_view kAdvice =
    " No error yet: a rank may still be preparing its first step, or reading data. If this lasts,"
    " look for a call that not all ranks make; the wait ends with an error at its timeout"
    " (timeout_s, TNT_TIMEOUT_S).";

std::string describe(int rank, const PeerStatus& status) {
  return text("rank ", rank, " (host ", status.host, ", pid ", status.pid, ")");
}

std::string fate_of(const PeerStatus& status) {
  switch (status.state) {
    case PeerState::starting:
      return "has not started";
    case PeerState::running:
      return "is running";
    case PeerState::finished:
      return text(
          "has finished: it ended without making this call",
          status.reason.empty() ? "" : ". Before, a creation had failed there: ", status.reason);
    case PeerState::failed:
      return text("has failed: ", status.reason);
    case PeerState::dead:
      if (!status.reason.empty()) {
        return text("is dead: it ended (", status.reason, ") without leaving the job");
      }
      return "is dead: it ended without leaving the job (killed, crashed or os._exit)";
    case PeerState::vanished:
      return text("cannot be reached: ", status.reason);
  }
  return {};
}

}  // namespace

Progress CollectiveOperation::advance() {
  abort_state_->rethrow_if_broken();
  probe_.advance();
  if (last_progress_ == Clock::time_point{}) last_progress_ = Clock::now();
  try {
    const Progress progress = do_advance();
    if (progress != Progress::pending) last_progress_ = Clock::now();
    return progress;
  } catch (const Error& error) {
    abort_state_->fail(error);
    throw;
  } catch (...) {
    // No memory, say. The others would wait for this rank, which will not come.
    const Error cause = Error::current();
    const Error error = error_of(cause.kind(), text("cannot be completed: ", cause.what(), "."),
                                 cause.cause_rank());
    abort_state_->fail(error);
    throw error;
  }
}

Progress CollectiveOperation::supervise() {
  abort_state_->rethrow_if_broken();
  try {
    require_alive();
    abort_state_->check_failures_of_others();
  } catch (const Error& error) {
    // Whatever arrived in the meantime may tell more (a mismatch).
    const Progress progress = advance();
    if (progress != Progress::pending) return progress;
    const Error known = explained(error);
    abort_state_->fail(known);
    throw known;
  }
  return Progress::pending;
}

Error CollectiveOperation::error_of(ErrorKind kind, const std::string& what, int cause_rank) const {
  return {kind, text("rank ", abort_state_->world_rank(), ": ", title(), " ", what), cause_rank};
}

// A rank may have ended because of a mismatch that a third one has reported.
Error CollectiveOperation::explained(const Error& error) const {
  const auto reported = abort_state_->failure_of_others();
  return reported && reported->kind() == ErrorKind::mismatch ? *reported : error;
}

void CollectiveOperation::require_alive() const {
  for (const int member : missing()) {
    const PeerStatus status = abort_state_->status_of(member);
    if (status.state == PeerState::running || status.state == PeerState::starting) continue;
    // It may have done its part just before it ended.
    if (std::ranges::count(missing(), member) == 0) continue;
    const bool has_output = status.state != PeerState::vanished;
    const std::string fate = fate_of(status);
    const int peer = abort_state_->world_rank_of(member);
    throw error_of(
        ErrorKind::peer_lost,
        text("needs ", comm::describe(peer, status), ", which ", fate, full_stop_after(fate),
             has_output ? " Look at the output of that rank first." : ""),
        peer);
  }
}

std::vector<int> CollectiveOperation::members_holding_up() const {
  const std::vector<int> awaited = missing();
  if (awaited.empty()) return awaited;
  std::vector<int> absent;
  std::vector<int> silent;
  for (int member = 0; member < abort_state_->num_members(); ++member) {
    if (!has_made_call(member)) absent.push_back(member);
    if (is_silent(abort_state_->status_of(member))) silent.push_back(member);
  }
  if (!absent.empty()) return absent;
  return silent.empty() ? awaited : silent;
}

std::vector<int> CollectiveOperation::awaited_ranks() const {
  std::vector<int> ranks;
  for (const int member : awaited_members()) ranks.push_back(abort_state_->world_rank_of(member));
  if (ranks.empty()) ranks.push_back(abort_state_->world_rank());
  return ranks;
}

void CollectiveOperation::report_wait(double waited_s) const {
  const std::vector<AwaitedMember> members = observe_awaited();
  const bool is_call_awaited =
      !members.empty() && std::all_of(members.begin(), members.end(), [](const auto& member) {
        return member.status.state == PeerState::running && !is_silent(member.status) &&
               !member.has_made_call;
      });
  log_warning(abort_state_->world_rank(),
              text(title(), " has waited ", waited_s, " s for ", in_words(members), ".",
                   is_call_awaited ? kAdvice : ""));
}

std::string CollectiveOperation::title() const {
  const std::string of_owner = owner_.empty() ? "" : text(owner_, " in ");
  return text(describe(), " of ", of_owner, "group '", abort_state_->group_name(), "'");
}

std::vector<CollectiveOperation::AwaitedMember> CollectiveOperation::observe_awaited() const {
  std::vector<AwaitedMember> result;
  for (const int member : awaited_members()) {
    result.push_back({abort_state_->world_rank_of(member), abort_state_->status_of(member),
                      has_made_call(member)});
  }
  return result;
}

std::string CollectiveOperation::in_words(const std::vector<AwaitedMember>& members) const {
  if (members.empty()) return own_part();
  std::string result;
  for (const AwaitedMember& member : members) {
    const char* state = ", which runs but has not called it yet";
    if (member.has_made_call) state = ", which has called it and has not done its part yet";
    if (is_silent(member.status)) state = ", which does not respond: stopped or swapped out";
    result += text(result.empty() ? "" : "; ", comm::describe(member.world_rank, member.status),
                   state, " (last sign of life ", member.status.heartbeat_age_s, " s ago)");
  }
  return result;
}

void CollectiveOperation::expire(double timeout_s) {
  break_group(error_of(
      ErrorKind::timeout,
      text("was not complete after ", timeout_s, " s; it waits for ", in_words(observe_awaited()),
           ". Check that every member makes the same calls in the same order, or"
           " allow more time (timeout_s, TNT_TIMEOUT_S).")));
}

void CollectiveOperation::abandon() {
  break_group(error_of(ErrorKind::comm, "was abandoned: the wait was interrupted."));
}

void CollectiveOperation::break_group(const Error& error) {
  abort_state_->fail(error);
  fail(error);
}

}  // namespace tnt::comm
