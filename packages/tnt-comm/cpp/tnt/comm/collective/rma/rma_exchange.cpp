#include "tnt/comm/collective/rma/rma_exchange.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {
namespace {

constexpr NotificationId kData = 0;
constexpr NotificationId kAnswer = 1;

std::size_t share_of(int size, SentParts parts, const AreaSizes& available) {
  const auto num_members = static_cast<std::size_t>(size);
  const std::size_t work = available.work / (parts == SentParts::same ? 1 : num_members);
  return std::min(work, available.landing / num_members) / kCacheLineBytes * kCacheLineBytes;
}

}  // namespace

Schedule exchange_schedule(int member, int size, std::size_t share, SentParts parts,
                           const Areas& areas) {
  Round round;
  for (int distance = 1; distance < size; ++distance) {
    const int other = (member + distance) % size;
    const std::size_t place =
        parts == SentParts::same ? 0 : static_cast<std::size_t>(other) * share;
    const std::size_t to = areas.landing + static_cast<std::size_t>(member) * share;
    round.sends.push_back({other, areas.work + place, to, 0, kData});
    round.arrivals.push_back({other, kData});
  }
  Schedule schedule;
  schedule.rounds.push_back(std::move(round));
  return schedule;
}

// Positions count from the root. The parent of a position is it without its
// lowest one bit; its children are it with one more bit below that.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas) {
  const auto member_at = [&](int position) { return (root + position) % size; };
  const int position = (member - root + size) % size;
  int bit = 1;
  while (bit < size && (position & bit) == 0) bit *= 2;
  Schedule schedule;
  Round forward;
  if (position != 0) {
    const int parent = member_at(position - bit);
    Round receive;
    receive.arrivals.push_back({parent, kData});
    schedule.rounds.push_back(std::move(receive));
    forward.sends.push_back({parent, 0, 0, 0, kAnswer});
  }
  for (int below = bit / 2; below >= 1; below /= 2) {
    if (position + below >= size) continue;
    const int child = member_at(position + below);
    forward.sends.push_back({child, areas.work, areas.work, num_bytes, kData});
    forward.arrivals.push_back({child, kAnswer});
  }
  schedule.rounds.push_back(std::move(forward));
  return schedule;
}

RmaExchange::RmaExchange(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts parts)
    : RmaExchangeWork(
          pipeline, descriptor,
          share_of(pipeline.staging().size(), parts, pipeline.staging().layout().areas)),
      parts_(parts),
      schedules_(staging().layout().depth,
                 exchange_schedule(rank(), size(), share(), parts, staging().areas())) {}

std::byte* RmaExchange::outgoing(int member, std::uint64_t index) const {
  const std::size_t place =
      parts_ == SentParts::same ? 0 : static_cast<std::size_t>(member) * share();
  return slot(index) + staging().areas().work + place;
}

void RmaExchange::send(int member, std::uint64_t index, std::size_t num_bytes) {
  if (member == rank()) return;
  const int distance = (member - rank() + size()) % size();
  std::vector<Message>& sends = schedules_[index % schedules_.size()].rounds.front().sends;
  sends[static_cast<std::size_t>(distance) - 1].num_bytes = num_bytes;
}

const std::byte* RmaExchange::incoming(int member, std::uint64_t index) const {
  if (member == rank()) return outgoing(member, index);
  return slot(index) + staging().areas().landing + static_cast<std::size_t>(member) * share();
}

RmaTree::RmaTree(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts)
    : RmaExchangeWork(pipeline, descriptor, pipeline.staging().layout().areas.work) {}

void RmaTree::cut(std::size_t num_bytes) {
  RmaExchangeWork::cut(std::max<std::size_t>(num_bytes, 1));
  const auto schedule = [&](std::size_t block_bytes) {
    return broadcast_schedule(rank(), size(), static_cast<int>(descriptor().root), block_bytes,
                              staging().areas());
  };
  if (num_blocks > 1) full_ = schedule(share());
  last_ = schedule(num_bytes - (num_blocks - 1) * share());
}

}  // namespace tnt::comm
