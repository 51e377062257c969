#include "tnt/comm/communicator/creation_watch.hpp"

#include <optional>
#include <utility>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr auto kCreationLookInterval = std::chrono::milliseconds(100);
constexpr const char* kRule =
    ". Every member of a group must create it, in the same order as it makes its other calls.";

}  // namespace

CreationWatch::CreationWatch(std::shared_ptr<Creations> creations, const CreationId& id,
                             std::vector<int> members, std::string title, const CallLabel& label,
                             double stall_report_s)
    : creations_(std::move(creations)),
      id_(id),
      members_(std::move(members)),
      title_(std::move(title)),
      label_(label),
      stall_report_s_(stall_report_s) {
  if (creations_) creations_->begin(id_);
}

CreationWatch::~CreationWatch() {
  if (!creations_) return;
  try {
    creations_->withdraw(id_);
  } catch (const Error&) {
    // Nothing can be sent any more: who waits for this rank will see that itself.
  }
}

void CreationWatch::look() {
  if (!creations_) return;
  // At each look, for it comes just before the rank that is told as well ends.
  if (const auto reason = creations_->refusal()) {
    is_over_ = true;
    throw Error(ErrorKind::mismatch, *reason);
  }
  if (const auto error = creations_->failure_of_others(members_, id_, title_)) {
    is_over_ = true;
    throw Error(*error);
  }
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kCreationLookInterval;
  if (seconds_since(start_) < stall_report_s_) return;
  if (!has_note_) title_ += note_of(label_);
  has_note_ = true;
  creations_->tell(members_, id_, title_);
  require_same_group();
}

void CreationWatch::require_same_group() {
  for (const int member : members_) {
    const auto notice = creations_->awaited_by(member);
    if (!notice) continue;
    const Error error(ErrorKind::mismatch,
                      text("rank ", member, " creates ", *notice,
                           ", while another member of it creates ", title_, kRule));
    creations_->refuse(error.what());
    is_over_ = true;
    throw error;
  }
}

void CreationWatch::fail(const Error& error) {
  if (!creations_ || is_over_) return;
  try {
    creations_->fail(members_, id_, error);
  } catch (const Error&) {
    // As above.
  }
}

void refuse_creations_by_awaited(Engine& engine, CollectiveOperation& operation,
                                 const AbortState& abort_state, std::uint32_t count) {
  Creations& creations = *abort_state.creations();
  engine.while_paused([&] {
    if (operation.completion().has_reached(count)) return;
    for (const int member : operation.awaited()) {
      const int rank = abort_state.world_rank_of(member);
      const auto notice = creations.awaited_by(rank);
      if (!notice) continue;
      const Error error(ErrorKind::mismatch, text("rank ", rank, " creates ", *notice,
                                                  ", while rank ", abort_state.world_rank(),
                                                  " waits for it in ", operation.title(), kRule));
      operation.break_group(error);  // before a rank ends that is told the other way
      return creations.refuse(error.what());
    }
  });
}

}  // namespace tnt::comm
