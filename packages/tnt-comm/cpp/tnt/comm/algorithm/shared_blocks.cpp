#include "tnt/comm/algorithm/shared_blocks.hpp"

#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr NotificationId kDropped = 0;

bool have_others_dropped(const Segment& segment) {
  for (int member = 0; member < segment.size(); ++member) {
    if (member != segment.rank() && segment.poll(member, kDropped) == 0) return false;
  }
  return true;
}

}  // namespace

std::uint64_t SharedBlocks::add(std::shared_ptr<Segment> segment, std::size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  forget_dropped();
  blocks_.emplace(next_, Block{std::move(segment), num_bytes, false});
  num_blocks_.store(blocks_.size());
  return next_++;
}

void SharedBlocks::drop(std::uint64_t block) {
  const std::lock_guard lock(mutex_);
  Block& dropped = blocks_.at(block);
  dropped.is_dropped = true;
  dropped.segment->discard_local();
  for (int member = 0; member < dropped.segment->size(); ++member) {
    if (member != dropped.segment->rank()) dropped.segment->notify(member, kDropped, 1);
  }
  forget_dropped();
}

void SharedBlocks::forget_dropped() {
  std::erase_if(blocks_, [](const auto& entry) {
    const Block& block = entry.second;
    return block.is_dropped && have_others_dropped(*block.segment);
  });
  num_blocks_.store(blocks_.size());
}

bool SharedBlocks::find(const void* data, std::size_t num_bytes, Place& place) const {
  if (num_blocks_.load(std::memory_order_relaxed) == 0) return false;
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, block] : blocks_) {
    const std::byte* part = block.segment->local();
    const std::less_equal<const std::byte*> is_not_after;  // defined for any two pointers
    if (!is_not_after(part, begin) || !is_not_after(begin + num_bytes, part + block.num_bytes)) {
      continue;
    }
    place = {number, static_cast<std::size_t>(begin - part)};
    return !block.is_dropped;
  }
  return false;
}

std::shared_ptr<Segment> SharedBlocks::segment_of(std::uint64_t block) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found != blocks_.end()) return found->second.segment;
  throw Error(ErrorKind::comm, text("Shared block ", block, " is not known on this rank."));
}

}  // namespace tnt::comm
