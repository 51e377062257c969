#include "tnt/comm/algorithm/network/network_operation.hpp"

#include <utility>

#include "tnt/comm/algorithm/mismatch.hpp"
#include "tnt/comm/algorithm/network/stall.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

NetworkOperation::NetworkOperation(std::shared_ptr<Health> health,
                                   std::shared_ptr<Agreement> agreement,
                                   std::shared_ptr<NetworkStream> stream,
                                   const Descriptor& descriptor)
    : CollectiveOperation(std::move(health)),
      most_steps_under_way(stream->channel.layout().depth),
      agreement_(std::move(agreement)),
      stream_(std::move(stream)),
      descriptor_(descriptor),
      runs_(channel().segment(), channel().layout().notification, most_steps_under_way) {}

Progress NetworkOperation::step() {
  if (!has_begun_) begin();
  bool has_moved = advance_agreement();
  has_moved |= try_begin_step();
  has_moved |= try_begin_exchange();
  has_moved |= runs_.advance(combiner());
  has_moved |= try_end_exchange();
  has_moved |= try_finish();
  if (has_agreed_ && finished_ == num_steps) {
    stream_->next_step = base_ + num_steps;
    return Progress::done;
  }
  if (has_moved) return Progress::advanced;
  agreement_->roll_call().answer_if_waiting();
  return Progress::pending;
}

void NetworkOperation::begin() {
  has_begun_ = true;
  base_ = stream_->next_step;
  agreement_->begin(descriptor_, shares_counts);
}

bool NetworkOperation::advance_agreement() {
  if (has_agreed_) return false;
  const bool has_moved = agreement_->advance(note());
  if (agreement_->is_refused()) throw mismatch_error(*health(), agreement_->calls());
  has_agreed_ = agreement_->is_reached();
  if (has_agreed_) on_agreement();
  return has_moved || has_agreed_;
}

bool NetworkOperation::try_begin_step() {
  if (begun_ == num_steps || begun_ - finished_ == most_steps_under_way) return false;
  if (!has_agreed_ && !sends_before_agreement) return false;
  copy_in(begun_);
  ++begun_;
  return true;
}

bool NetworkOperation::try_begin_exchange() {
  if (exchanging_ == begun_ || !is_filled(exchanging_)) return false;
  const std::uint64_t step = base_ + exchanging_;
  runs_.push(schedule_of(exchanging_), channel().window_offset(step),
             NetworkChannel::value_of(step));
  ++exchanging_;
  return true;
}

bool NetworkOperation::try_end_exchange() {
  bool has_moved = false;
  while (runs_.is_oldest_done()) {
    runs_.pop();
    on_exchanged(exchanged_);
    ++exchanged_;
    has_moved = true;
  }
  return has_moved;
}

bool NetworkOperation::try_finish() {
  if (finished_ == exchanged_ || !has_agreed_ || !is_complete(finished_)) return false;
  copy_out(finished_);
  ++finished_;
  return true;
}

std::string NetworkOperation::describe() const {
  return text("call ", descriptor_.call_index, ", ", descriptor_.describe(), note().text(), ",");
}

std::vector<int> NetworkOperation::missing() const {
  std::vector<int> members;
  if (!has_begun_) return members;
  if (!has_agreed_) agreement_->append_missing(members);
  append_missing(members);
  return members;
}

std::vector<int> NetworkOperation::awaited_members() const {
  return holding_up(*health(), missing(), [this](int member) { return has_made_call(member); });
}

bool NetworkOperation::has_made_call(int member) const {
  return has_agreed_ || agreement_->roll_call().is_present(member);
}

std::string NetworkOperation::own_part() const {
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
