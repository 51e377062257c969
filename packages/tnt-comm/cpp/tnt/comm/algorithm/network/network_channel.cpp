#include "tnt/comm/algorithm/network/network_channel.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/algorithm/network/reduction_schedule.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

std::size_t NetworkLayout::num_notifications(int num_members) {
  return max_num_rounds(num_members);
}

NetworkChannel::NetworkChannel(std::shared_ptr<Segment> segment, const NetworkLayout& layout)
    : segment_(std::move(segment)), layout_(layout) {}

AreaSizes window_areas(int num_members, std::size_t work_bytes) {
  constexpr std::size_t kGranule = 64;
  // Every member needs a place of its own in the area.
  const std::size_t least = static_cast<std::size_t>(num_members) * kGranule;
  AreaSizes sizes;
  sizes.work = round_up(std::max(work_bytes, least), kGranule);
  sizes.landing = sizes.work;
  for (const Radices radices : {Radices::one, Radices::primes}) {
    const Exchange split{.is_split = true, .radices = radices};
    const std::size_t needed = allreduce_areas(split, num_members, sizes.work).landing;
    sizes.landing = std::max(sizes.landing, needed);
  }
  return sizes;
}

}  // namespace tnt::comm
