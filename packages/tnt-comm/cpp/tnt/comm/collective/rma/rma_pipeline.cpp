#include "tnt/comm/collective/rma/rma_pipeline.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/array.hpp"

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
    const LevelScheme split{.is_split = true, .radices = radices};
    const std::size_t needed = allreduce_areas(split, num_members, layout.areas.work).landing;
    layout.areas.landing = std::max(layout.areas.landing, needed);
  }
  return layout;
}

void ScheduleRun::begin(const Schedule& schedule, std::size_t slot, std::uint64_t value,
                        const std::byte* own) {
  schedule_ = &schedule;
  own_ = own;
  slot_ = slot;
  value_ = value;
  round_ = num_sent_rounds_ = num_sent_ = num_received_ = num_combined_ = 0;
  std::size_t most = 0;
  for (const Round& round : schedule.rounds) most = std::max(most, round.operands.size());
  operands_.resize(most);  // within what an earlier schedule reserved, if there was one
}

bool ScheduleRun::advance(std::size_t sendable_rounds, const Combiner& combiner) {
  bool has_moved = false;
  while (!is_done()) {
    const Round& round = schedule_->rounds[round_];
    has_moved |= send(round, sendable_rounds);
    has_moved |= receive(round);
    if (num_received_ < round.arrivals.size()) return has_moved;
    if (num_combined_ < round.num_bytes && !round.operands.empty()) {
      combine(round, combiner);
      has_moved = true;
      if (num_combined_ < round.num_bytes) return true;
    }
    if (num_sent_rounds_ == round_) return has_moved;
    ++round_;
    num_sent_ = num_received_ = num_combined_ = 0;
    has_moved = true;
  }
  return has_moved;
}

bool ScheduleRun::send(const Round& round, std::size_t sendable_rounds) {
  constexpr std::size_t kMessagesPerSend = 2;  // a put and its notification
  if (num_sent_rounds_ > round_ || round_ >= sendable_rounds) return false;
  const std::size_t before = num_sent_;
  while (num_sent_ < round.sends.size()) {
    const Message& message = round.sends[num_sent_];
    if (!segment_->has_room(message.member, kMessagesPerSend)) return num_sent_ > before;
    if (message.num_bytes > 0) {
      segment_->put(message.member, slot_ + message.to, slot_ + message.from, message.num_bytes);
    }
    segment_->notify(message.member, id_ + message.id, value_);
    ++num_sent_;
  }
  num_sent_rounds_ = round_ + 1;
  return true;
}

bool ScheduleRun::receive(const Round& round) {
  const std::size_t before = num_received_;
  while (num_received_ < round.arrivals.size() && has_arrived(round.arrivals[num_received_])) {
    ++num_received_;
  }
  return num_received_ > before;
}

void ScheduleRun::combine(const Round& round, const Combiner& combiner) {
  // At most, so that other operations get their turn: some tens of microseconds.
  constexpr std::size_t kBytesPerTurn = 256 * 1024;
  const std::size_t length = std::min(round.num_bytes - num_combined_, kBytesPerTurn);
  std::byte* const begin = segment_->local() + slot_ + num_combined_;
  for (std::size_t i = 0; i < round.operands.size(); ++i) {
    const bool is_own = own_ != nullptr && round_ == 0 && round.operands[i] == round.target;
    operands_[i] = is_own ? own_ + num_combined_ : begin + round.operands[i];
  }
  combiner.reducer->reduce(begin + round.target, operands_.data(), round.operands.size(),
                           length / combiner.element_bytes);
  num_combined_ += length;
}

void ScheduleRun::append_missing(std::vector<int>& members) const {
  if (is_done()) return;
  for (const Arrival& arrival : schedule_->rounds[round_].arrivals) {
    const bool is_listed =
        std::find(members.begin(), members.end(), arrival.member) != members.end();
    if (!is_listed && !has_arrived(arrival)) members.push_back(arrival.member);
  }
}

RmaPipeline::RmaPipeline(std::shared_ptr<RmaStream> stream)
    : stream_(std::move(stream)),
      runs_(stream_->layout.depth, ScheduleRun(*stream_->segment, stream_->layout.notification)) {}

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
  has_moved |= exchange(work.combiner());
  advance_by(&RmaPipeline::try_distribute);
  if (has_matched) advance_by(&RmaPipeline::try_finish);
  return has_moved;
}

bool RmaPipeline::is_done(const RmaWork& work) const {
  return finished_ == work.num_blocks;
}

bool RmaPipeline::try_fill(RmaWork& work) {
  const std::size_t most = std::min(work.most_blocks_in_flight, stream_->layout.depth);
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
  runs_[sent_ % runs_.size()].begin(work.schedule_of(sent_), stream_->slot_offset(block), block + 1,
                                    work.own_operand(sent_));
  ++sent_;
  return true;
}

// All blocks use the same notification numbers, with values that grow from block to block. Who
// looks for a value takes any larger one for it, so a block must not send a round before the
// block in front of it has.
bool RmaPipeline::exchange(const Combiner& combiner) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  bool has_moved = false;
  std::size_t sendable_rounds = kNone;
  std::size_t awaited_round = kNone;
  for (std::uint64_t index = exchanged_; index < sent_; ++index) {
    ScheduleRun& run = runs_[index % runs_.size()];
    // What an older run still waits for in the same round has not come for this
    // one either. Most runs are in this state, and each look costs cache misses.
    if (run.is_waiting() && run.round() == awaited_round) continue;
    has_moved |= run.advance(sendable_rounds, combiner);
    if (run.is_waiting()) awaited_round = run.round();
    // A finished run has sent everything; blocks may have different numbers of
    // rounds only if the later operation began after the earlier one's end.
    if (!run.is_done()) sendable_rounds = run.num_sent_rounds();
  }
  while (exchanged_ < sent_ && runs_[exchanged_ % runs_.size()].is_done()) ++exchanged_;
  return has_moved;
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

void RmaPipeline::append_missing(std::vector<int>& members) const {
  for (std::uint64_t index = exchanged_; index < sent_; ++index) {
    runs_[index % runs_.size()].append_missing(members);
  }
}

bool RmaPipeline::has_heard_of(int member, const RmaWork& work) const {
  if (member == stream_->rank()) return true;
  const auto has_come = [&](const Arrival& arrival) {
    const NotificationId id = stream_->layout.notification + arrival.id;
    return arrival.member == member && stream_->segment->poll(member, id) > base_;
  };
  const std::vector<Round>& rounds = work.schedule_of(0).rounds;
  return std::any_of(rounds.begin(), rounds.end(), [&](const Round& round) {
    return std::any_of(round.arrivals.begin(), round.arrivals.end(), has_come);
  });
}

}  // namespace tnt::comm
