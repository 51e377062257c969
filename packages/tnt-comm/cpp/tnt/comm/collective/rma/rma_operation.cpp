#include "tnt/comm/collective/rma/rma_operation.hpp"

#include <utility>

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/collective/mismatch.hpp"
#include "tnt/comm/collective/rma/stall.hpp"

namespace tnt::comm {

RmaOperation::RmaOperation(std::shared_ptr<AbortState> abort_state,
                           std::shared_ptr<FingerprintCheck> fingerprint_check,
                           std::shared_ptr<RmaStream> stream, const Descriptor& descriptor)
    : CollectiveOperation(std::move(abort_state)),
      most_blocks_in_flight(stream->channel.layout().depth),
      check_(std::move(fingerprint_check)),
      stream_(std::move(stream)),
      descriptor_(descriptor),
      runs_(channel().segment(), channel().layout().notification, most_blocks_in_flight) {}

Progress RmaOperation::do_advance() {
  if (!has_begun_) begin();
  bool has_moved = advance_check();
  has_moved |= try_begin_block();
  has_moved |= try_begin_exchange();
  has_moved |= runs_.advance(combiner());
  has_moved |= try_end_exchange();
  has_moved |= try_finish();
  if (has_matched_ && finished_ == num_blocks) {
    stream_->next_block = base_ + num_blocks;
    return Progress::done;
  }
  if (has_moved) return Progress::advanced;
  check_->arrival_report().answer_if_waiting();
  return Progress::pending;
}

void RmaOperation::begin() {
  has_begun_ = true;
  base_ = stream_->next_block;
  check_->begin(descriptor_, shares_counts);
}

bool RmaOperation::advance_check() {
  if (has_matched_) return false;
  const bool has_moved = check_->advance(note());
  if (check_->is_refused()) throw mismatch_error(*abort_state(), check_->calls());
  has_matched_ = check_->is_reached();
  if (has_matched_) on_match();
  return has_moved || has_matched_;
}

bool RmaOperation::try_begin_block() {
  if (begun_ == num_blocks || begun_ - finished_ == most_blocks_in_flight) return false;
  if (!has_matched_ && !sends_before_match) return false;
  copy_in(begun_);
  ++begun_;
  return true;
}

bool RmaOperation::try_begin_exchange() {
  if (exchanging_ == begun_ || !is_filled(exchanging_)) return false;
  const std::uint64_t block = base_ + exchanging_;
  runs_.push(schedule_of(exchanging_), channel().slot_offset(block), RmaChannel::value_of(block));
  ++exchanging_;
  return true;
}

bool RmaOperation::try_end_exchange() {
  bool has_moved = false;
  while (runs_.is_oldest_done()) {
    runs_.pop();
    on_exchanged(exchanged_);
    ++exchanged_;
    has_moved = true;
  }
  return has_moved;
}

bool RmaOperation::try_finish() {
  if (finished_ == exchanged_ || !has_matched_ || !is_complete(finished_)) return false;
  copy_out(finished_);
  ++finished_;
  return true;
}

std::string RmaOperation::describe() const {
  return text("call ", descriptor_.call_index, ", ", descriptor_.describe(), note().text(), ",");
}

std::vector<int> RmaOperation::missing() const {
  std::vector<int> members;
  if (!has_begun_) return members;
  if (!has_matched_) check_->append_missing(members);
  append_missing(members);
  return members;
}

std::vector<int> RmaOperation::awaited_members() const {
  return holding_up(*abort_state(), missing(),
                    [this](int member) { return has_made_call(member); });
}

bool RmaOperation::has_made_call(int member) const {
  return has_matched_ || check_->arrival_report().is_present(member);
}

std::string RmaOperation::own_part() const {
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
