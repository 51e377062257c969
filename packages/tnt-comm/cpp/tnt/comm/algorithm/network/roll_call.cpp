#include "tnt/comm/algorithm/network/roll_call.hpp"

#include <utility>

namespace tnt::comm {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(100);

}  // namespace

RollCall::RollCall(std::shared_ptr<Segment> segment, NotificationId id)
    : segment_(std::move(segment)), id_(id) {}

void RollCall::begin(std::uint64_t call) {
  call_ = call;
  begin_ = Clock::now();
  num_told_ = 0;
}

bool RollCall::answer_if_waiting() {
  const int size = segment_->size();
  if (num_told_ == size - 1 || Clock::now() - begin_ < kPatience) return false;
  const int before = num_told_;
  while (num_told_ < size - 1) {
    const int member = (segment_->rank() + 1 + num_told_) % size;
    if (!segment_->has_room(member, 1)) break;
    segment_->notify(member, id_, call_ + 1);
    ++num_told_;
  }
  return num_told_ > before;
}

bool RollCall::is_present(int member) const {
  return member == segment_->rank() || segment_->poll(member, id_) > call_;
}

}  // namespace tnt::comm
