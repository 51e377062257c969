#include "tnt/comm/collective/rma/bucket_allreduce.hpp"

#include <utility>

#include "tnt/comm/collective/rma/stall.hpp"

namespace tnt::comm {

MemoryNeeds RmaBucketAllreduce::memory_needs(const MessagePattern& pattern, int size, DType dtype,
                                             std::size_t count) {
  MemoryNeeds needs = BucketExchange::memory_needs(pattern, size, count * size_of(dtype));
  needs.num_bytes += ArrivalReport::memory_needs(size).num_bytes;
  return needs;
}

RmaBucketAllreduce::RmaBucketAllreduce(std::shared_ptr<AbortState> abort_state,
                                       std::shared_ptr<Segment> segment,
                                       const MessagePattern& pattern, DType dtype,
                                       std::size_t count, std::size_t offset,
                                       NotificationId notification, std::string name)
    : BucketOperation(std::move(abort_state), std::move(name)),
      arrival_report_(segment, offset),
      exchange_(segment, pattern, dtype, count,
                offset + ArrivalReport::memory_needs(segment->size()).num_bytes, notification) {}

Progress RmaBucketAllreduce::do_advance() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    has_begun_ = true;
    arrival_report_.begin(current());
    exchange_.begin(current());
    while (exchange_.num_pushed() < exchange_.num_blocks()) exchange_.push();
  }
  const bool has_moved = exchange_.advance();
  if (exchange_.is_done()) return Progress::done;
  if (has_moved) return Progress::advanced;
  arrival_report_.answer_if_waiting();
  return Progress::pending;
}

std::vector<int> RmaBucketAllreduce::missing() const {
  std::vector<int> members;
  if (has_begun_) exchange_.append_missing(members);
  return members;
}

std::vector<int> RmaBucketAllreduce::awaited_members() const {
  return holding_up(*abort_state(), missing(),
                    [this](int member) { return has_made_call(member); });
}

bool RmaBucketAllreduce::has_made_call(int member) const {
  return arrival_report_.is_present(member) || exchange_.has_begun(member);
}

std::string RmaBucketAllreduce::own_part() const {
  if (awaits_this_rank()) return BucketOperation::own_part();
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
