#include "tnt/comm/collective/rma/reduce_scatter.hpp"

#include <cstring>
#include <utility>

namespace tnt::comm {

Schedule reduce_scatter_schedule(int member, int size, std::size_t share, const Areas& areas) {
  Schedule schedule = parts_schedule(member, size, share, areas);
  schedule.result = areas.work + static_cast<std::size_t>(member) * share;
  Round& round = schedule.rounds.front();
  round.target = schedule.result;
  for (int sender = 0; sender < size; ++sender) {
    const std::size_t landing = areas.landing + static_cast<std::size_t>(sender) * share;
    round.operands.push_back(sender == member ? schedule.result : landing);
  }
  return schedule;
}

RmaReduceScatter::RmaReduceScatter(std::shared_ptr<AbortState> abort_state,
                                   std::shared_ptr<FingerprintCheck> fingerprint_check,
                                   std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                                   const std::vector<Range>& parts, const void* in, void* out)
    : RmaPartsOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                        descriptor, parts, in),
      element_bytes_(size_of(descriptor.dtype)),
      out_(static_cast<std::byte*>(out)),
      reducer_(descriptor.dtype, descriptor.op, static_cast<std::size_t>(channel().size())) {
  const Schedule schedule =
      reduce_scatter_schedule(channel().rank(), channel().size(), share(), channel().areas());
  schedules().assign(schedules().size(), schedule);
}

void RmaReduceScatter::copy_in(std::uint64_t index) {
  RmaPartsOperation::copy_in(index);
  Round& round = round_of(index);
  round.num_bytes = fill(index, channel().rank(), round.target);
}

void RmaReduceScatter::copy_out(std::uint64_t index) {
  const Range bytes = own_block(index);
  if (bytes.size() == 0) return;
  std::memcpy(out_ + bytes.begin, slot(index) + schedule_of(index).result, bytes.size());
}

}  // namespace tnt::comm
