#include "tnt/comm/collective/rma/schedule_run.hpp"

#include <algorithm>
#include <limits>

namespace tnt::comm {
namespace {

// What one call combines at most, so that other operations get their turn:
// some tens of microseconds.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

// A put and its notification.
constexpr std::size_t kMessagesPerSend = 2;

}  // namespace

void ScheduleRun::begin(const Schedule& schedule, std::size_t slot, std::uint64_t value) {
  schedule_ = &schedule;
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

bool ScheduleRun::has_arrived(const Arrival& arrival) const {
  return segment_->poll(arrival.member, id_ + arrival.id) >= value_;
}

bool ScheduleRun::receive(const Round& round) {
  const std::size_t before = num_received_;
  while (num_received_ < round.arrivals.size() && has_arrived(round.arrivals[num_received_])) {
    ++num_received_;
  }
  return num_received_ > before;
}

void ScheduleRun::combine(const Round& round, const Combiner& combiner) {
  const std::size_t length = std::min(round.num_bytes - num_combined_, kBytesPerTurn);
  std::byte* const begin = segment_->local() + slot_ + num_combined_;
  for (std::size_t i = 0; i < round.operands.size(); ++i) operands_[i] = begin + round.operands[i];
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

void RunQueue::push(const Schedule& schedule, std::size_t slot, std::uint64_t value) {
  ++num_runs_;
  run(num_runs_ - 1).begin(schedule, slot, value);
}

bool RunQueue::advance(const Combiner& combiner) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  bool has_moved = false;
  std::size_t sendable_rounds = kNone;
  std::size_t awaited_round = kNone;
  for (std::size_t age = 0; age < num_runs_; ++age) {
    ScheduleRun& current = run(age);
    // What an older run still waits for in the same round has not come for this
    // one either. Most runs are in this state, and each look costs cache misses.
    if (current.is_waiting() && current.round() == awaited_round) continue;
    has_moved |= current.advance(sendable_rounds, combiner);
    if (current.is_waiting()) awaited_round = current.round();
    // A finished run has sent everything; blocks may have different numbers of
    // rounds only if the later operation began after the earlier one's end.
    if (!current.is_done()) sendable_rounds = current.num_sent_rounds();
  }
  return has_moved;
}

void RunQueue::pop() {
  oldest_ = (oldest_ + 1) % runs_.size();
  --num_runs_;
}

void RunQueue::append_missing(std::vector<int>& members) const {
  for (std::size_t age = 0; age < num_runs_; ++age) run(age).append_missing(members);
}

}  // namespace tnt::comm
