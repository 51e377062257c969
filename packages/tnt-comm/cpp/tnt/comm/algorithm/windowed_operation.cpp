#include "tnt/comm/algorithm/windowed_operation.hpp"

#include <utility>

#include "tnt/comm/algorithm/mismatch.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

WindowedOperation::WindowedOperation(std::shared_ptr<Health> health, double stall_report_s,
                                     std::shared_ptr<ChannelState> state,
                                     const Descriptor& descriptor)
    : CollectiveOperation(std::move(health), stall_report_s),
      pipeline_(std::move(state)),
      posting_{.descriptor = descriptor, .is_shared = false, .places = {}, .note = {}} {}

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
  posting_.note = note();
  pipeline_.state().channel.describe(pipeline_.base(), posting_);
}

void WindowedOperation::on_first_posted() {
  require_match();
  on_match();
}

void WindowedOperation::require_match() const {
  bool is_equal = true;
  for (int member = 0; member < channel().size(); ++member) {
    is_equal = is_equal && descriptor().matches(descriptor_of(member));
  }
  if (is_equal) return;
  std::vector<MadeCall> calls;
  for (int member = 0; member < channel().size(); ++member) {
    calls.push_back({descriptor_of(member), channel().note_of(member, pipeline_.base())});
  }
  throw mismatch_error(*health(), calls);
}

std::string WindowedOperation::describe() const {
  return text("call ", descriptor().call_index, ", ", descriptor().describe(), note(), ",");
}

std::vector<int> WindowedOperation::missing() const {
  return has_begun_ ? pipeline_.missing() : std::vector<int>{};
}

}  // namespace tnt::comm
