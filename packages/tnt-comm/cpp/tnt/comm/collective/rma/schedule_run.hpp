#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// What combines the operands of a round; null where nothing is combined.
struct Combiner {
  TreeReducer* reducer = nullptr;
  std::size_t element_bytes = 1;
};

/// One schedule on its way: knows the round and what of it is done.
///
/// Never blocks: messages are sent only while the transport has room for them,
/// and a message that has not arrived is looked for again in the next call.
class ScheduleRun {
 public:
  ScheduleRun(Segment& segment, NotificationId first_id) : segment_(&segment), id_(first_id) {}

  /// `value` is what this run's notifications carry. The schedule must live until the run is done.
  /// `own`: what the sum of the first round takes the place of, if that is not in the slot.
  void begin(const Schedule& schedule, std::size_t slot, std::uint64_t value,
             const std::byte* own = nullptr) {
    schedule_ = &schedule;
    own_ = own;
    slot_ = slot;
    value_ = value;
    round_ = num_sent_rounds_ = num_sent_ = num_received_ = num_combined_ = 0;
    std::size_t most = 0;
    for (const Round& round : schedule.rounds) most = std::max(most, round.operands.size());
    operands_.resize(most);  // within what an earlier schedule reserved, if there was one
  }

  /// Does what can be done now, but no more than one long combination; true if
  /// that was anything. Sends no round from `sendable_rounds` on.
  bool advance(std::size_t sendable_rounds, const Combiner& combiner) {
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

  bool is_done() const { return round_ == schedule_->rounds.size(); }

  /// Whether this run can do nothing before messages of its round arrive.
  bool is_waiting() const {
    return num_sent_rounds_ > round_ && !is_done() &&
           num_received_ < schedule_->rounds[round_].arrivals.size();
  }
  std::size_t round() const { return round_; }
  std::size_t num_sent_rounds() const { return num_sent_rounds_; }

  /// Appends the members whose message the current round still waits for.
  void append_missing(std::vector<int>& members) const {
    if (is_done()) return;
    for (const Arrival& arrival : schedule_->rounds[round_].arrivals) {
      const bool is_listed =
          std::find(members.begin(), members.end(), arrival.member) != members.end();
      if (!is_listed && !has_arrived(arrival)) members.push_back(arrival.member);
    }
  }

 private:
  bool send(const Round& round, std::size_t sendable_rounds) {
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

  bool receive(const Round& round) {
    const std::size_t before = num_received_;
    while (num_received_ < round.arrivals.size() && has_arrived(round.arrivals[num_received_])) {
      ++num_received_;
    }
    return num_received_ > before;
  }

  void combine(const Round& round, const Combiner& combiner) {
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

  bool has_arrived(const Arrival& arrival) const {
    return segment_->poll(arrival.member, id_ + arrival.id) >= value_;
  }

  Segment* segment_;
  NotificationId id_;
  const Schedule* schedule_ = nullptr;
  const std::byte* own_ = nullptr;
  std::size_t slot_ = 0;
  std::uint64_t value_ = 0;
  std::size_t round_ = 0;
  std::size_t num_sent_rounds_ = 0;
  std::size_t num_sent_ = 0;      // of the round
  std::size_t num_received_ = 0;  // of the round
  std::size_t num_combined_ = 0;  // bytes of the round
  std::vector<const std::byte*> operands_;
};

}  // namespace tnt::comm
