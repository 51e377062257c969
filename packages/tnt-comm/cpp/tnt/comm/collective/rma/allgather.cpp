#include "tnt/comm/collective/rma/allgather.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/base/memory_size.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

std::size_t allgather_share(int size, const AreaSizes& available) {
  const std::size_t share = available.landing / static_cast<std::size_t>(size);
  return std::min(share, available.work) / kCacheLineBytes * kCacheLineBytes;
}

Schedule allgather_schedule(int member, int size, std::size_t num_bytes, std::size_t share,
                            const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.landing;
  Round round;
  const std::size_t to = areas.landing + static_cast<std::size_t>(member) * share;
  for (int distance = 1; distance < size; ++distance) {
    const int other = (member + distance) % size;
    round.sends.push_back({other, areas.work, to, num_bytes, 0});
    round.arrivals.push_back({other, 0});
  }
  schedule.rounds.push_back(std::move(round));
  return schedule;
}

RmaAllgather::RmaAllgather(std::shared_ptr<AbortState> abort_state,
                           std::shared_ptr<FingerprintCheck> fingerprint_check,
                           std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                           std::shared_ptr<GatherInput> in, std::shared_ptr<Gathered> gathered)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      in_(std::move(in)),
      gathered_(std::move(gathered)),
      share_(allgather_share(channel().size(), channel().layout().areas)),
      schedules_(channel().layout().depth, allgather_schedule(channel().rank(), channel().size(), 0,
                                                              share_, channel().areas())) {
  shares_counts = true;
}

void RmaAllgather::on_match() {
  std::size_t longest = 0;
  std::size_t end = 0;
  for (int member = 0; member < channel().size(); ++member) {
    const std::size_t num_bytes =
        bytes_in_memory(check().count_of(member), size_of(descriptor().dtype),
                        text("The block of member ", member));
    longest = std::max(longest, num_bytes);
    end += num_bytes;
    gathered_->ends.push_back(end);
  }
  // The one allocation that cannot happen earlier: only now the sizes are known.
  if (descriptor().is_root(channel().rank())) gathered_->blocks = RecycledMemory(end);
  num_blocks = (longest + share_ - 1) / share_;
}

Range RmaAllgather::block(std::uint64_t index, int member) const {
  const auto which = static_cast<std::size_t>(member);
  const std::size_t begin = gathered_->begin_of(which) + index * share_;
  const std::size_t end = gathered_->ends[which];
  return {std::min(begin, end), std::min(begin + share_, end)};
}

void RmaAllgather::copy_in(std::uint64_t index) {
  const Range own = block(index, channel().rank());
  Schedule& schedule = schedules_[index % schedules_.size()];
  for (Message& message : schedule.rounds.front().sends) {
    message.num_bytes = descriptor().is_root(message.member) ? own.size() : 0;
  }
  if (own.size() == 0) return;
  const std::byte* source = in_->data() + index * share_;
  std::memcpy(slot(index) + channel().areas().work, source, own.size());
  if (descriptor().is_root(channel().rank())) {
    std::memcpy(gathered_->blocks.data() + own.begin, source, own.size());
  }
}

const Schedule& RmaAllgather::schedule_of(std::uint64_t index) const {
  return schedules_[index % schedules_.size()];
}

void RmaAllgather::copy_out(std::uint64_t index) {
  if (!descriptor().is_root(channel().rank())) return;
  const std::byte* landing = slot(index) + channel().areas().landing;
  for (int member = 0; member < channel().size(); ++member) {
    const Range bytes = block(index, member);
    if (member == channel().rank() || bytes.size() == 0) continue;
    std::memcpy(gathered_->blocks.data() + bytes.begin,
                landing + static_cast<std::size_t>(member) * share_, bytes.size());
  }
}

}  // namespace tnt::comm
