#include "tnt/comm/collective/rma/parts_operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"

namespace tnt::comm {

std::size_t parts_share(int size, const AreaSizes& available) {
  return std::min(available.work, available.landing) / static_cast<std::size_t>(size) /
         kCacheLineBytes * kCacheLineBytes;
}

Schedule parts_schedule(int member, int size, std::size_t share, const Areas& areas) {
  Round round;
  for (int distance = 1; distance < size; ++distance) {
    const int other = (member + distance) % size;
    const std::size_t from = areas.work + static_cast<std::size_t>(other) * share;
    const std::size_t to = areas.landing + static_cast<std::size_t>(member) * share;
    round.sends.push_back({other, from, to, 0, 0});
    round.arrivals.push_back({other, 0});
  }
  Schedule schedule;
  schedule.result = areas.landing;
  schedule.rounds.push_back(std::move(round));
  return schedule;
}

RmaPartsOperation::RmaPartsOperation(std::shared_ptr<AbortState> abort_state,
                                     std::shared_ptr<FingerprintCheck> fingerprint_check,
                                     std::shared_ptr<RmaStream> stream,
                                     const Descriptor& descriptor, const std::vector<Range>& parts,
                                     const void* in)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      in_(static_cast<const std::byte*>(in)),
      share_(parts_share(channel().size(), channel().layout().areas)),
      schedules_(channel().layout().depth,
                 parts_schedule(channel().rank(), channel().size(), share_, channel().areas())) {
  const std::size_t element_bytes = size_of(descriptor.dtype);
  std::size_t longest = 0;
  for (const Range& part : parts) {
    parts_.push_back({part.begin * element_bytes, part.end * element_bytes});
    longest = std::max(longest, parts_.back().size());
  }
  num_blocks = (longest + share_ - 1) / share_;
}

Range RmaPartsOperation::block(std::uint64_t index, std::size_t member) const {
  const Range& part = parts_[member];
  return {std::min(part.begin + index * share_, part.end),
          std::min(part.begin + (index + 1) * share_, part.end)};
}

Range RmaPartsOperation::own_block(std::uint64_t index) const {
  const Range bytes = block(index, own_index());
  const std::size_t begin = parts_[own_index()].begin;
  return {bytes.begin - begin, bytes.end - begin};
}

std::size_t RmaPartsOperation::fill(std::uint64_t index, int member, std::size_t offset) {
  const Range bytes = block(index, static_cast<std::size_t>(member));
  if (bytes.size() > 0) std::memcpy(slot(index) + offset, in_ + bytes.begin, bytes.size());
  return bytes.size();
}

void RmaPartsOperation::copy_in(std::uint64_t index) {
  for (Message& message : round_of(index).sends) {
    message.num_bytes = sends() ? fill(index, message.member, message.from) : 0;
  }
}

const Schedule& RmaPartsOperation::schedule_of(std::uint64_t index) const {
  return schedules_[index % schedules_.size()];
}

}  // namespace tnt::comm
