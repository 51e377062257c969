#include "tnt/comm/collective/rma/rma_staging.hpp"

#include <algorithm>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/rma/reduction_schedule.hpp"

namespace tnt::comm {
namespace {

// Enough blocks under way that a rank has something to send while it waits for
// the rounds of the others: with eight ranks, six of them for each block.
constexpr std::size_t kDepth = 4;

}  // namespace

RmaLayout stream_layout(int num_members, std::size_t work_bytes) {
  // Every member needs a place of its own in the area.
  const std::size_t least = static_cast<std::size_t>(num_members) * kCacheLineBytes;
  RmaLayout layout;
  layout.depth = kDepth;
  layout.areas.work = round_up(std::max(work_bytes, least), kCacheLineBytes);
  layout.areas.landing = layout.areas.work;
  for (const Radices radices : {Radices::one, Radices::primes}) {
    const Exchange split{.is_split = true, .radices = radices};
    const std::size_t needed = allreduce_areas(split, num_members, layout.areas.work).landing;
    layout.areas.landing = std::max(layout.areas.landing, needed);
  }
  return layout;
}

}  // namespace tnt::comm
