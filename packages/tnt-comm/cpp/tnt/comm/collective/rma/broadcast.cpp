#include "tnt/comm/collective/rma/broadcast.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {
namespace {

constexpr NotificationId kData = 0;
constexpr NotificationId kAnswer = 1;

}  // namespace

// Positions count from the root. The parent of a position is it without its
// lowest one bit; its children are it with one more bit below that.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas) {
  const auto member_at = [&](int position) { return (root + position) % size; };
  const int position = (member - root + size) % size;
  int bit = 1;
  while (bit < size && (position & bit) == 0) bit *= 2;
  Schedule schedule;
  schedule.result = areas.work;
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

RmaBroadcast::RmaBroadcast(std::shared_ptr<AbortState> abort_state,
                           std::shared_ptr<FingerprintCheck> fingerprint_check,
                           std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                           const void* in, void* out)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      num_bytes_(descriptor.count * size_of(descriptor.dtype)) {
  const std::size_t slot_bytes = channel().layout().areas.work;
  num_blocks = std::max<std::size_t>(1, (num_bytes_ + slot_bytes - 1) / slot_bytes);
  const auto schedule = [&](std::uint64_t index) {
    return broadcast_schedule(channel().rank(), channel().size(), static_cast<int>(descriptor.root),
                              block(index).size(), channel().areas());
  };
  if (num_blocks > 1) full_ = schedule(0);
  last_ = schedule(num_blocks - 1);
}

Range RmaBroadcast::block(std::uint64_t index) const {
  const std::size_t begin = index * channel().layout().areas.work;
  return {begin, std::min(begin + channel().layout().areas.work, num_bytes_)};
}

const Schedule& RmaBroadcast::schedule_of(std::uint64_t index) const {
  return index + 1 == num_blocks ? last_ : full_;
}

void RmaBroadcast::copy_in(std::uint64_t index) {
  const Range bytes = block(index);
  if (is_root() && bytes.size() > 0) std::memcpy(place(index), in_ + bytes.begin, bytes.size());
}

void RmaBroadcast::copy_out(std::uint64_t index) {
  const Range bytes = block(index);
  if (bytes.size() == 0 || (is_root() && in_ == out_)) return;
  std::memcpy(out_ + bytes.begin, place(index), bytes.size());
}

}  // namespace tnt::comm
