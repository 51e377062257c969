#include "tnt/comm/collective/staged_operation.hpp"

#include <utility>

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/collective/mismatch.hpp"

namespace tnt::comm {

StagedOperation::StagedOperation(std::shared_ptr<AbortState> abort_state,
                                 std::shared_ptr<ChannelState> state, const Descriptor& descriptor)
    : CollectiveOperation(std::move(abort_state)),
      pipeline_(std::move(state)),
      posting_{.descriptor = descriptor, .is_shared = false, .places = {}} {}

void StagedOperation::take_over(const Descriptor& descriptor) {
  has_begun_ = true;
  posting_.descriptor = descriptor;
  pipeline_.begin(1);
}

Progress StagedOperation::do_advance() {
  if (!has_begun_) begin();
  const bool has_moved = pipeline_.advance(*this);
  if (pipeline_.is_done(*this)) {
    pipeline_.end();
    return Progress::done;
  }
  return has_moved ? Progress::advanced : Progress::pending;
}

void StagedOperation::begin() {
  has_begun_ = true;
  pipeline_.begin();
  posting_.descriptor.call_index = pipeline_.state().num_calls++;
  pipeline_.state().channel.describe(pipeline_.base(), posting_);
}

bool StagedOperation::on_first_posted() {
  is_mismatch_ = !do_all_match();
  if (is_mismatch_) {
    exchange_notes();
    return false;
  }
  on_match();
  return true;
}

bool StagedOperation::do_all_match() const {
  bool is_equal = true;
  for (int member = 0; member < channel().size(); ++member) {
    is_equal = is_equal && descriptor().matches(descriptor_of(member));
  }
  return is_equal;
}

// Throws when all are known.
void StagedOperation::exchange_notes() {
  if (!note().is_given()) return;
  Channel& own = pipeline_.state().channel;
  if (!own.has_told_note(own.rank(), pipeline_.base())) {
    own.tell_note(pipeline_.base(), note().text());
  }
  if (own.missing_notes(pipeline_.base()).empty()) throw mismatch();
}

Error StagedOperation::mismatch() const {
  std::vector<MadeCall> calls;
  for (int member = 0; member < channel().size(); ++member) {
    calls.push_back({descriptor_of(member), channel().note_of(member, pipeline_.base())});
  }
  return mismatch_error(*abort_state(), calls);
}

// Who ends before it has told its note has still made another call.
Error StagedOperation::explained(const Error& error) const {
  return is_mismatch_ ? mismatch() : CollectiveOperation::explained(error);
}

std::string StagedOperation::describe() const {
  return text("call ", descriptor().call_index, ", ", descriptor().describe(), note().text(), ",");
}

bool StagedOperation::has_made_call(int member) const {
  return has_begun_ && channel().has_posted(member, pipeline_.base());
}

std::vector<int> StagedOperation::missing() const {
  if (is_mismatch_) return channel().missing_notes(pipeline_.base());
  return has_begun_ ? pipeline_.missing() : std::vector<int>{};
}

}  // namespace tnt::comm
