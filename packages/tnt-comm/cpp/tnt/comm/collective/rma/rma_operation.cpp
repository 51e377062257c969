#include "tnt/comm/collective/rma/rma_operation.hpp"

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

RmaOperation::RmaOperation(std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                           RmaWork& work)
    : CollectiveOperation(stream->abort_state),
      pipeline_(std::move(stream)),
      descriptor_(descriptor),
      work_(work) {}

Progress RmaOperation::do_advance() {
  if (!has_begun_) begin();
  bool has_moved = advance_check();
  has_moved |= pipeline_.advance(work_, has_matched_);
  if (has_matched_ && pipeline_.is_done(work_)) {
    pipeline_.end();
    return Progress::done;
  }
  if (has_moved) return Progress::advanced;
  check().arrival_report().answer_if_waiting();
  return Progress::pending;
}

void RmaOperation::begin() {
  has_begun_ = true;
  pipeline_.begin();
  check().begin(descriptor_);
}

bool RmaOperation::advance_check() {
  if (has_matched_) return false;
  const bool has_moved = check().advance(note());
  if (check().is_refused()) throw mismatch_error(*abort_state(), check().calls());
  has_matched_ = check().is_reached();
  if (has_matched_) work_.on_match();
  return has_moved || has_matched_;
}

std::string RmaOperation::describe() const {
  return text("call ", descriptor_.call_index, ", ", descriptor_.describe(), note().text(), ",");
}

std::vector<int> RmaOperation::missing() const {
  std::vector<int> members;
  if (!has_begun_) return members;
  if (!has_matched_) check().append_missing(members);
  work_.append_missing(members);
  return members;
}

bool RmaOperation::has_made_call(int member) const {
  return has_matched_ || check().arrival_report().is_present(member);
}

}  // namespace tnt::comm
