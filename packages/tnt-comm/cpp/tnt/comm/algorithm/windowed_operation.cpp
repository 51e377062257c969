#include "tnt/comm/algorithm/windowed_operation.hpp"

#include <utility>

#include "tnt/comm/algorithm/mismatch.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

WindowedOperation::WindowedOperation(std::shared_ptr<Health> health,
                                     std::shared_ptr<ChannelState> state,
                                     const Descriptor& descriptor)
    : CollectiveOperation(std::move(health)),
      pipeline_(std::move(state)),
      posting_{.descriptor = descriptor, .is_shared = false, .places = {}} {}

void WindowedOperation::take_over(const Descriptor& descriptor) {
  has_begun_ = true;
  posting_.descriptor = descriptor;
  pipeline_.begin(1);
}

Progress WindowedOperation::step() {
  if (!has_begun_) begin();
  const bool has_moved = pipeline_.advance(*this);
  if (pipeline_.is_done(*this)) {
    pipeline_.end();
    return Progress::done;
  }
  return has_moved ? Progress::advanced : Progress::pending;
}

void WindowedOperation::begin() {
  has_begun_ = true;
  pipeline_.begin();
  posting_.descriptor.call_index = pipeline_.state().num_calls++;
  pipeline_.state().channel.describe(pipeline_.base(), posting_);
}

bool WindowedOperation::on_first_posted() {
  is_mismatch_ = !do_all_match();
  if (is_mismatch_) {
    exchange_notes();
    return false;
  }
  on_match();
  return true;
}

bool WindowedOperation::do_all_match() const {
  bool is_equal = true;
  for (int member = 0; member < channel().size(); ++member) {
    is_equal = is_equal && descriptor().matches(descriptor_of(member));
  }
  return is_equal;
}

// Throws when all are known.
void WindowedOperation::exchange_notes() {
  if (!note().is_given()) return;
  Channel& own = pipeline_.state().channel;
  if (!own.has_told_note(own.rank(), pipeline_.base())) {
    own.tell_note(pipeline_.base(), note().text());
  }
  if (own.missing_notes(pipeline_.base()).empty()) throw mismatch();
}

Error WindowedOperation::mismatch() const {
  std::vector<MadeCall> calls;
  for (int member = 0; member < channel().size(); ++member) {
    calls.push_back({descriptor_of(member), channel().note_of(member, pipeline_.base())});
  }
  return mismatch_error(*health(), calls);
}

// Who ends before it has told its note has still made another call.
Error WindowedOperation::explained(const Error& error) const {
  return is_mismatch_ ? mismatch() : CollectiveOperation::explained(error);
}

std::string WindowedOperation::describe() const {
  return text("call ", descriptor().call_index, ", ", descriptor().describe(), note().text(), ",");
}

bool WindowedOperation::has_made_call(int member) const {
  return has_begun_ && channel().has_posted(member, pipeline_.base());
}

std::vector<int> WindowedOperation::missing() const {
  if (is_mismatch_) return channel().missing_notes(pipeline_.base());
  return has_begun_ ? pipeline_.missing() : std::vector<int>{};
}

}  // namespace tnt::comm
