#include "tnt/comm/collective/rma/rma_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace tnt::comm {

RmaPipeline::RmaPipeline(std::shared_ptr<RmaStream> stream)
    : stream_(std::move(stream)),
      runs_(staging().segment(), staging().layout().notification, staging().layout().depth) {}

void RmaPipeline::begin(std::uint64_t num_filled) {
  base_ = stream_->next_block;
  filled_ = num_filled;
  sent_ = exchanged_ = distributed_ = finished_ = 0;
}

bool RmaPipeline::advance(RmaWork& work, bool has_matched) {
  bool has_moved = false;
  const auto advance_by = [&](bool (RmaPipeline::*stage)(RmaWork&)) {
    while ((this->*stage)(work)) {
      has_moved = true;
      if (work.takes_turns) return;
    }
  };
  if (has_matched || work.sends_before_match) advance_by(&RmaPipeline::try_fill);
  advance_by(&RmaPipeline::try_send);
  has_moved |= runs_.advance(work.combiner());
  for (; runs_.is_oldest_done(); runs_.pop()) ++exchanged_;
  advance_by(&RmaPipeline::try_distribute);
  if (has_matched) advance_by(&RmaPipeline::try_finish);
  return has_moved;
}

bool RmaPipeline::try_fill(RmaWork& work) {
  const std::size_t most = std::min(work.most_blocks_in_flight, staging().layout().depth);
  if (filled_ == work.num_blocks || filled_ - finished_ == most) return false;
  work.copy_in(filled_);
  ++filled_;
  return true;
}

bool RmaPipeline::try_send(RmaWork& work) {
  if (sent_ == filled_) return false;
  const Progress progress = work.prepare(sent_);
  if (progress != Progress::done) return progress == Progress::advanced;
  const std::uint64_t block = base_ + sent_;
  runs_.push(work.schedule_of(sent_), staging().slot_offset(block), block + 1);
  ++sent_;
  return true;
}

bool RmaPipeline::try_distribute(RmaWork& work) {
  if (distributed_ == exchanged_) return false;
  const Progress progress = work.distribute(distributed_);
  if (progress == Progress::done) ++distributed_;
  return progress != Progress::pending;
}

bool RmaPipeline::try_finish(RmaWork& work) {
  if (finished_ == distributed_ || !work.is_complete(finished_)) return false;
  work.copy_out(finished_);
  ++finished_;
  return true;
}

bool RmaPipeline::has_heard_of(int member, const RmaWork& work) const {
  const RmaStaging& own = staging();
  if (member == own.rank()) return true;
  const auto has_come = [&](const Arrival& arrival) {
    const NotificationId id = own.layout().notification + arrival.id;
    return arrival.member == member && own.segment().poll(member, id) > base_;
  };
  const std::vector<Round>& rounds = work.schedule_of(0).rounds;
  return std::any_of(rounds.begin(), rounds.end(), [&](const Round& round) {
    return std::any_of(round.arrivals.begin(), round.arrivals.end(), has_come);
  });
}

}  // namespace tnt::comm
