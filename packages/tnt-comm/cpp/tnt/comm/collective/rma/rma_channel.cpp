#include "tnt/comm/collective/rma/rma_channel.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/reduction_schedule.hpp"

namespace tnt::comm {

std::size_t RmaLayout::num_notifications(int num_members) {
  return max_num_rounds(num_members);
}

RmaChannel::RmaChannel(std::shared_ptr<Segment> segment, const RmaLayout& layout)
    : segment_(std::move(segment)), layout_(layout) {}

AreaSizes slot_areas(int num_members, std::size_t work_bytes) {
  // Every member needs a place of its own in the area.
  const std::size_t least = static_cast<std::size_t>(num_members) * kCacheLineBytes;
  AreaSizes sizes;
  sizes.work = round_up(std::max(work_bytes, least), kCacheLineBytes);
  sizes.landing = sizes.work;
  for (const Radices radices : {Radices::one, Radices::primes}) {
    const Exchange split{.is_split = true, .radices = radices};
    const std::size_t needed = allreduce_areas(split, num_members, sizes.work).landing;
    sizes.landing = std::max(sizes.landing, needed);
  }
  return sizes;
}

}  // namespace tnt::comm
