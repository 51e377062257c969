#include "tnt/comm/collective/staged_operation.hpp"

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

StagedOperation::StagedOperation(std::shared_ptr<StagedStream> stream, const Descriptor& descriptor,
                                 StagedWork& work)
    : CollectiveOperation(stream->context.abort_state),
      pipeline_(std::move(stream)),
      descriptor_(descriptor),
      work_(work) {}

void StagedOperation::take_over(const Descriptor& descriptor) {
  has_begun_ = true;
  descriptor_ = descriptor;
  pipeline_.begin(1);
}

Progress StagedOperation::do_advance() {
  if (!has_begun_) begin();
  bool has_moved = pipeline_.try_post(work_);
  if (!has_matched_ && pipeline_.have_all_posted_first()) match();
  if (has_matched_) has_moved |= pipeline_.advance(work_);
  if (pipeline_.is_done(work_)) {
    pipeline_.end();
    return Progress::done;
  }
  return has_moved ? Progress::advanced : Progress::pending;
}

void StagedOperation::begin() {
  has_begun_ = true;
  pipeline_.begin();
  StagedStream& stream = pipeline_.stream();
  descriptor_.call_index = stream.num_calls++;
  stream.channel.describe(pipeline_.base(), {.descriptor = descriptor_,
                                             .is_shared = work_.places.has_value(),
                                             .places = work_.places.value_or(SharedOffsets{})});
}

void StagedOperation::match() {
  for (int member = 0; member < channel().size(); ++member) {
    is_mismatch_ |= !descriptor_.matches(channel().descriptor_of(member, pipeline_.base()));
  }
  if (is_mismatch_) return exchange_notes();
  has_matched_ = true;
  work_.on_match();
}

// Throws when all are known.
void StagedOperation::exchange_notes() {
  if (!note().is_given()) return;
  Channel& own = pipeline_.stream().channel;
  if (!own.has_told_note(own.rank(), pipeline_.base())) {
    own.tell_note(pipeline_.base(), note().text());
  }
  if (own.missing_notes(pipeline_.base()).empty()) throw mismatch();
}

Error StagedOperation::mismatch() const {
  std::vector<MadeCall> calls;
  for (int member = 0; member < channel().size(); ++member) {
    calls.push_back({channel().descriptor_of(member, pipeline_.base()),
                     channel().note_of(member, pipeline_.base())});
  }
  return mismatch_error(*abort_state(), calls);
}

// Who ends before it has told its note has still made another call.
Error StagedOperation::explained(const Error& error) const {
  return is_mismatch_ ? mismatch() : CollectiveOperation::explained(error);
}

std::string StagedOperation::describe() const {
  return text("call ", descriptor_.call_index, ", ", descriptor_.describe(), note().text(), ",");
}

bool StagedOperation::has_made_call(int member) const {
  return has_begun_ && channel().has_posted(member, pipeline_.base());
}

std::vector<int> StagedOperation::missing() const {
  if (is_mismatch_) return channel().missing_notes(pipeline_.base());
  return has_begun_ ? pipeline_.missing() : std::vector<int>{};
}

}  // namespace tnt::comm
