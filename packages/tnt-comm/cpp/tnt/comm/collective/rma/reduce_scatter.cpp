#include "tnt/comm/collective/rma/reduce_scatter.hpp"
#include "tnt/comm/base/cache_line.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {

std::size_t reduce_scatter_share(int size, const AreaSizes& available) {
  return std::min(available.work, available.landing) / static_cast<std::size_t>(size) /
         kCacheLineBytes * kCacheLineBytes;
}

Schedule reduce_scatter_schedule(int member, int size, std::size_t share, const Areas& areas) {
  const auto place = [&](std::size_t area, int index) {
    return area + static_cast<std::size_t>(index) * share;
  };
  Schedule schedule;
  schedule.result = place(areas.work, member);
  Round round;
  round.target = schedule.result;
  for (int distance = 1; distance < size; ++distance) {
    const int other = (member + distance) % size;
    round.sends.push_back({other, place(areas.work, other), place(areas.landing, member), 0, 0});
    round.arrivals.push_back({other, 0});
  }
  for (int sender = 0; sender < size; ++sender) {
    round.operands.push_back(sender == member ? schedule.result : place(areas.landing, sender));
  }
  schedule.rounds.push_back(std::move(round));
  return schedule;
}

RmaReduceScatter::RmaReduceScatter(std::shared_ptr<AbortState> abort_state,
                                   std::shared_ptr<FingerprintCheck> fingerprint_check,
                                   std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                                   const std::vector<Range>& parts, const void* in, void* out)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      element_bytes_(size_of(descriptor.dtype)),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      share_(reduce_scatter_share(channel().size(), channel().layout().areas)),
      schedules_(
          channel().layout().depth,
          reduce_scatter_schedule(channel().rank(), channel().size(), share_, channel().areas())),
      reducer_(descriptor.dtype, descriptor.op, static_cast<std::size_t>(channel().size())) {
  std::size_t longest = 0;
  for (const Range& part : parts) {
    parts_.push_back({part.begin * element_bytes_, part.end * element_bytes_});
    longest = std::max(longest, parts_.back().size());
  }
  num_blocks = (longest + share_ - 1) / share_;
}

Range RmaReduceScatter::block(std::uint64_t index, int member) const {
  const Range& part = parts_[static_cast<std::size_t>(member)];
  return {std::min(part.begin + index * share_, part.end),
          std::min(part.begin + (index + 1) * share_, part.end)};
}

void RmaReduceScatter::copy_in(std::uint64_t index) {
  Round& round = schedules_[index % schedules_.size()].rounds.front();
  const auto copy = [&](int member, std::size_t place) {
    const Range bytes = block(index, member);
    if (bytes.size() > 0) std::memcpy(slot(index) + place, in_ + bytes.begin, bytes.size());
    return bytes.size();
  };
  for (Message& message : round.sends) message.num_bytes = copy(message.member, message.from);
  round.num_bytes = copy(channel().rank(), round.target);
}

const Schedule& RmaReduceScatter::schedule_of(std::uint64_t index) const {
  return schedules_[index % schedules_.size()];
}

void RmaReduceScatter::copy_out(std::uint64_t index) {
  const Range bytes = block(index, channel().rank());
  if (bytes.size() == 0) return;
  std::memcpy(out_ + index * share_, slot(index) + schedule_of(index).result, bytes.size());
}

}  // namespace tnt::comm
