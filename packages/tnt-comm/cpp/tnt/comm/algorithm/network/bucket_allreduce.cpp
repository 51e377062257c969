#include "tnt/comm/algorithm/network/bucket_allreduce.hpp"

#include <utility>

#include "tnt/comm/algorithm/network/stall.hpp"

namespace tnt::comm {

MemoryNeeds NetworkBucketAllreduce::memory_needs(const MessagePattern& pattern, int size,
                                                 DType dtype, std::size_t count) {
  MemoryNeeds needs = BucketExchange::memory_needs(pattern, size, count * size_of(dtype));
  needs.num_bytes += RollCall::memory_needs(size).num_bytes;
  return needs;
}

NetworkBucketAllreduce::NetworkBucketAllreduce(std::shared_ptr<Health> health,
                                               std::shared_ptr<Segment> segment,
                                               const MessagePattern& pattern, DType dtype,
                                               std::size_t count, std::size_t offset,
                                               NotificationId notification, std::string name)
    : BucketOperation(std::move(health), std::move(name)),
      roll_call_(segment, offset),
      exchange_(segment, pattern, dtype, count,
                offset + RollCall::memory_needs(segment->size()).num_bytes, notification) {}

Progress NetworkBucketAllreduce::step() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    has_begun_ = true;
    roll_call_.begin(current());
    exchange_.begin(current());
    while (exchange_.num_pushed() < exchange_.num_pieces()) exchange_.push();
  }
  const bool has_moved = exchange_.advance();
  if (exchange_.is_done()) return Progress::done;
  if (has_moved) return Progress::advanced;
  roll_call_.answer_if_waiting();
  return Progress::pending;
}

std::vector<int> NetworkBucketAllreduce::missing() const {
  std::vector<int> members;
  if (has_begun_) exchange_.append_missing(members);
  return members;
}

std::vector<int> NetworkBucketAllreduce::awaited_members() const {
  return holding_up(*health(), missing(), [this](int member) { return has_made_call(member); });
}

bool NetworkBucketAllreduce::has_made_call(int member) const {
  return roll_call_.is_present(member) || exchange_.has_begun(member);
}

std::string NetworkBucketAllreduce::own_part() const {
  if (awaits_this_rank()) return BucketOperation::own_part();
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
