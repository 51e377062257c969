#include "tnt/comm/collective/rma/bucket_exchange.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/collective/rma/reduction_schedule.hpp"

namespace tnt::comm {
namespace {

// Large enough that a message's way is short next to what it takes to send it,
// also when it is cut for eight ranks; and not so many that the counters of the
// notifications, of 31 bits on some networks, run full in a long training.
constexpr std::size_t kSmallestBlockBytes = 256 * 1024;
constexpr std::size_t kMostBlocks = 16;

std::vector<Range> blocks_of(const MessagePattern& pattern, std::size_t num_bytes) {
  const bool is_cut = pattern.exchange.is_split && pattern.has_many_blocks_under_way;
  const std::size_t wanted = is_cut ? num_bytes / kSmallestBlockBytes : 1;
  const std::size_t num_blocks = std::clamp<std::size_t>(wanted, 1, kMostBlocks);
  std::vector<Range> blocks;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    blocks.push_back(part_of(num_bytes, num_blocks, i, kCacheLineBytes));
  }
  return blocks;
}

AreaSizes areas_of(const MessagePattern& pattern, int size, std::size_t num_bytes) {
  AreaSizes sum;
  for (const Range& block : blocks_of(pattern, num_bytes)) {
    const AreaSizes sizes = allreduce_areas(pattern.exchange, size, block.size());
    sum.work += sizes.work;
    sum.landing += sizes.landing;
  }
  return sum;
}

}  // namespace

MemoryNeeds BucketExchange::memory_needs(const MessagePattern& pattern, int size,
                                         std::size_t num_bytes) {
  const AreaSizes areas = areas_of(pattern, size, num_bytes);
  return {2 * (areas.work + areas.landing), num_arrivals(pattern.exchange, size)};
}

BucketExchange::BucketExchange(std::shared_ptr<Segment> segment, const MessagePattern& pattern,
                               DType dtype, std::size_t count, std::size_t offset,
                               NotificationId notification)
    : segment_(std::move(segment)),
      id_(notification),
      offset_(offset),
      element_bytes_(size_of(dtype)),
      reducer_(dtype, ReduceOp::sum, static_cast<std::size_t>(segment_->size())),
      runs_(segment_, notification, blocks_of(pattern, count * element_bytes_).size()) {
  const int size = segment_->size();
  const AreaSizes total = areas_of(pattern, size, count * element_bytes_);
  slot_bytes_ = total.work + total.landing;
  Areas areas{0, total.work};
  for (const Range& bytes : blocks_of(pattern, count * element_bytes_)) {
    schedules_.push_back(
        allreduce_schedule(pattern.exchange, segment_->rank(), size, bytes.size(), areas));
    number_arrivals(schedules_.back());
    blocks_.push_back({bytes.begin / element_bytes_, bytes.end / element_bytes_});
    const AreaSizes sizes = allreduce_areas(pattern.exchange, size, bytes.size());
    areas.work += sizes.work;
    areas.landing += sizes.landing;
  }
}

std::size_t BucketExchange::slot_offset(std::uint64_t step) const {
  return offset_ + step % 2 * slot_bytes_;
}

std::byte* BucketExchange::input(std::uint64_t step) const {
  return segment_->local() + slot_offset(step);
}

const std::byte* BucketExchange::result(std::uint64_t step) const {
  // Blocks of a split exchange come back to where they were; a whole one is
  // never cut.
  return input(step) + schedules_.front().result;
}

std::uint64_t BucketExchange::value_of(std::size_t block) const {
  return step_ * num_blocks() + block + 1;
}

void BucketExchange::begin(std::uint64_t step) {
  step_ = step;
  num_pushed_ = num_done_ = 0;
}

void BucketExchange::push() {
  runs_.push(schedules_[num_pushed_], slot_offset(step_), value_of(num_pushed_));
  ++num_pushed_;
}

bool BucketExchange::advance() {
  bool has_moved = runs_.advance({&reducer_, element_bytes_});
  while (runs_.is_oldest_done()) {
    runs_.pop();
    ++num_done_;
    has_moved = true;
  }
  return has_moved;
}

bool BucketExchange::has_begun(int member) const {
  if (member == segment_->rank()) return true;
  const auto has_come = [&](const Arrival& arrival) {
    return arrival.member == member && segment_->poll(member, id_ + arrival.id) >= value_of(0);
  };
  // Those of all blocks are alike.
  const std::vector<Round>& rounds = schedules_.front().rounds;
  return std::any_of(rounds.begin(), rounds.end(), [&](const Round& round) {
    return std::any_of(round.arrivals.begin(), round.arrivals.end(), has_come);
  });
}

}  // namespace tnt::comm
