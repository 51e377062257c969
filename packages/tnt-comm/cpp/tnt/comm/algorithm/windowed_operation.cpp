#include "tnt/comm/algorithm/windowed_operation.hpp"

#include <utility>

#include "tnt/comm/algorithm/mismatch.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

WindowedOperation::WindowedOperation(std::shared_ptr<Health> health, double stall_report_s,
                                     std::shared_ptr<ChannelState> state,
                                     const Descriptor& descriptor)
    : CollectiveOperation(std::move(health), stall_report_s),
      state_(std::move(state)),
      posting_{.descriptor = descriptor, .is_shared = false, .places = {}} {}

void WindowedOperation::take_over(const Descriptor& descriptor) {
  has_begun_ = true;
  base_ = state_->next_step;
  posting_.descriptor = descriptor;
  posted_ = 1;
}

Progress WindowedOperation::step() {
  if (!has_begun_) begin();
  bool has_moved = try_post();
  has_moved |= try_reduce();
  has_moved |= try_finish();
  if (finished_ == num_steps) {
    state_->next_step = base_ + num_steps;
    return Progress::done;
  }
  return has_moved ? Progress::advanced : Progress::pending;
}

void WindowedOperation::begin() {
  has_begun_ = true;
  base_ = state_->next_step;
  posting_.descriptor.call_index = state_->num_calls++;
  state_->channel.describe(base_, posting_);
}

bool WindowedOperation::try_post() {
  if (posted_ == num_steps || posted_ == finished_ + state_->channel.depth()) return false;
  copy_in(posted_, own_window(posted_));
  state_->channel.post(base_ + posted_);
  ++posted_;
  return true;
}

bool WindowedOperation::try_reduce() {
  if (reduced_ == posted_ || !state_->channel.have_all_posted(base_ + reduced_)) return false;
  if (!is_matched_) {
    require_match();
    on_match();
    is_matched_ = true;
  }
  if (has_second_round) {
    if (!reduce(reduced_)) return true;
    state_->channel.publish_reduced(base_ + reduced_);
  }
  ++reduced_;
  return true;
}

bool WindowedOperation::try_finish() {
  if (finished_ == reduced_) return false;
  if (has_second_round && !state_->channel.have_all_reduced(base_ + finished_)) return false;
  copy_out(finished_);
  ++finished_;
  return true;
}

void WindowedOperation::require_match() const {
  bool is_equal = true;
  for (int member = 0; member < channel().size(); ++member) {
    is_equal = is_equal && descriptor().matches(descriptor_of(member));
  }
  if (is_equal) return;
  std::vector<Descriptor> calls;
  for (int member = 0; member < channel().size(); ++member) {
    calls.push_back(descriptor_of(member));
  }
  throw mismatch_error(*health(), calls);
}

std::string WindowedOperation::describe() const {
  return text("call ", descriptor().call_index, ", ", descriptor().describe(), ",");
}

std::vector<int> WindowedOperation::missing() const {
  if (!has_begun_) return {};
  if (reduced_ < posted_) return channel().missing_posts(base_ + reduced_);
  if (finished_ < reduced_) return channel().missing_reductions(base_ + finished_);
  return {};
}

}  // namespace tnt::comm
