#include "tnt/comm/collective/rma/arrival_report.hpp"

#include <utility>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {
namespace {

constexpr auto kBackoff = std::chrono::milliseconds(100);

}  // namespace

MemoryNeeds ArrivalReport::memory_needs(int num_members) {
  return {round_up(static_cast<std::size_t>(num_members) * sizeof(std::uint64_t), kCacheLineBytes),
          0};
}

ArrivalReport::ArrivalReport(std::shared_ptr<Segment> segment, std::size_t offset)
    : segment_(std::move(segment)), offset_(offset) {}

std::size_t ArrivalReport::word_offset(int member) const {
  return offset_ + static_cast<std::size_t>(member) * sizeof(std::uint64_t);
}

std::atomic_ref<std::uint64_t> ArrivalReport::word(int member) const {
  return std::atomic_ref<std::uint64_t>(
      *reinterpret_cast<std::uint64_t*>(segment_->local() + word_offset(member)));
}

void ArrivalReport::begin(std::uint64_t call) {
  call_ = call;
  begin_ = Clock::now();
  num_told_ = 0;
}

bool ArrivalReport::answer_if_waiting() {
  const int size = segment_->size();
  if (num_told_ == size - 1 || Clock::now() - begin_ < kBackoff) return false;
  const int before = num_told_;
  const std::size_t own = word_offset(segment_->rank());
  word(segment_->rank()).store(call_ + 1, std::memory_order_relaxed);
  while (num_told_ < size - 1) {
    const int member = (segment_->rank() + 1 + num_told_) % size;
    if (!segment_->has_room(member, 1)) break;
    segment_->put(member, own, own, sizeof(std::uint64_t));
    ++num_told_;
  }
  return num_told_ > before;
}

bool ArrivalReport::is_present(int member) const {
  // Nothing else is read because of it, so the order of loads does not matter.
  return member == segment_->rank() || word(member).load(std::memory_order_relaxed) > call_;
}

}  // namespace tnt::comm
