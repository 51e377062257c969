#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/progress/operation.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

struct RmaLayout {
  std::size_t offset = 0;           ///< of the slots' bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first one
  AreaSizes areas;                  ///< of a slot; multiples of 64
  std::size_t depth = 1;            ///< blocks that may be under way at once
  std::size_t blocks_per_slot = 1;  ///< `depth`, where what is packed in a slot is cut into blocks

  std::size_t slot_bytes() const { return areas.work + areas.landing; }
  std::size_t num_slots() const { return 2 * depth / blocks_per_slot; }
  std::size_t num_bytes() const { return num_slots() * slot_bytes(); }
};

/// The layout for a stream of calls: areas for which the longest block of every split allreduce,
/// an equal share per member of an allgather and so on is about `work_bytes`.
inline RmaLayout stream_layout(int num_members, std::size_t work_bytes) {
  // Enough blocks under way that a rank has something to send while it waits for
  // the rounds of the others: with eight ranks, six of them for each block.
  constexpr std::size_t kDepth = 4;
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

/// Staging slots in registered memory, of ranks that can only put into each other's. They serve
/// one operation after the other: the calls of a stream, or the steps of a bucket.
///
/// What goes through them is a sequence of *blocks*, numbered from 0 on every rank alike. The 2d
/// slots (d: the depth) take blocks in turn, and the notifications of block s carry s+1. A bucket
/// has two slots with room for all d blocks of a step, each of which has its own part of the slot.
/// A rank begins s only after it has finished s-d.
///
/// In a block of all collectives but a broadcast every rank gets a message that depends on every
/// other rank's having begun it, empty messages included. So when a rank has finished s-d, all have
/// begun s-d, and hence finished s-2d: nobody uses the part of s-2d any more, neither to read what
/// landed there nor to send from it, and block s may fill it, here and there. No SlotRing: networks
/// have counters, and no cache line that a post shares with its data. Threads: one at a time.
struct RmaStream {
  std::shared_ptr<AbortState> abort_state;
  std::shared_ptr<FingerprintCheck> check;  ///< of calls
  std::shared_ptr<Segment> segment;         ///< operations may outlive the object they belong to
  RmaLayout layout;
  std::uint64_t next_block = 0;  ///< the first block of the next operation

  int rank() const { return segment->rank(); }
  int size() const { return segment->size(); }

  /// The slot of a block, as an offset in the segment and in memory.
  std::size_t slot_offset(std::uint64_t block) const {
    return layout.offset +
           block / layout.blocks_per_slot % layout.num_slots() * layout.slot_bytes();
  }
  std::byte* slot(std::uint64_t block) const { return segment->local() + slot_offset(block); }

  /// Places inside the slot of one block.
  Areas areas() const { return {0, layout.areas.work}; }
};

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

class RmaPipeline;

/// What is done with the blocks of one collective among ranks that can only put into each
/// other's memory. `index` counts them from 0.
class RmaWork {
 public:
  explicit RmaWork(const RmaPipeline& pipeline) : pipeline_(pipeline) {}
  virtual ~RmaWork() = default;

  /// Set by the constructor of the subclass, or by on_match().
  std::uint64_t num_blocks = 0;
  std::size_t most_blocks_in_flight = std::numeric_limits<std::size_t>::max();
  /// Whether blocks may be sent before it is known that all ranks make the same call.
  bool sends_before_match = false;
  /// Whether what is done besides the exchange takes time, and is done for one block per advance().
  bool takes_turns = true;

  /// Called once by a call, before anything is copied out.
  virtual void on_match() {}

  /// Fills what this rank sends in the slot of the block.
  virtual void copy_in(std::uint64_t /*index*/) {}
  /// Called until it is `done`: then the exchange begins.
  virtual Progress prepare(std::uint64_t /*index*/) { return Progress::done; }
  /// Must stay as it is until the block is finished.
  virtual const Schedule& schedule_of(std::uint64_t index) const = 0;
  virtual Combiner combiner() { return {}; }
  /// See ScheduleRun::begin().
  virtual const std::byte* own_operand(std::uint64_t /*index*/) const { return nullptr; }
  /// Called when the exchange is over, until it is `done`.
  virtual Progress distribute(std::uint64_t /*index*/) { return Progress::done; }
  /// Whether everything is there that copy_out() reads.
  virtual bool is_complete(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t /*index*/) {}
  virtual void release_arrays() {}

  /// Appends group members whose data is waited for.
  virtual void append_missing(std::vector<int>& members) const;

 protected:
  const RmaPipeline& pipeline() const { return pipeline_; }
  const RmaStream& stream() const;
  std::byte* slot(std::uint64_t index) const;

 private:
  const RmaPipeline& pipeline_;
};

/// Takes an operation through the slots of a stream, with up to `depth` of its blocks under way:
/// each is filled, prepared, exchanged, distributed and copied out. StagingPipeline, which only
/// looks at slots in rounds, is shorter and a short call's whole time. Threads: one at a time.
class RmaPipeline {
 public:
  explicit RmaPipeline(std::shared_ptr<RmaStream> stream)
      : stream_(std::move(stream)),
        runs_(stream_->layout.depth, ScheduleRun(*stream_->segment, stream_->layout.notification)) {
  }

  /// From the stream's next block on. `num_filled`: blocks that are packed in their slots already.
  void begin(std::uint64_t num_filled = 0) {
    base_ = stream_->next_block;
    filled_ = num_filled;
    sent_ = exchanged_ = distributed_ = finished_ = 0;
  }

  /// Does what can be done without waiting; true if that was anything. `has_matched`: all ranks
  /// take part in the same operation.
  bool advance(RmaWork& work, bool has_matched) {
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

  bool is_done(const RmaWork& work) const { return finished_ == work.num_blocks; }

  /// The operation is done; the slots are free for the next one.
  void end() { stream_->next_block = base_ + finished_; }
  RmaStream& stream() const { return *stream_; }
  std::uint64_t base() const { return base_; }  ///< the stream's number of the first block

  std::uint64_t num_filled() const { return filled_; }
  std::uint64_t num_sent() const { return sent_; }  ///< whose exchange has begun
  std::uint64_t num_distributed() const { return distributed_; }
  std::uint64_t num_finished() const { return finished_; }

  /// Appends the members that any block waits for, those of the oldest first.
  void append_missing(std::vector<int>& members) const {
    for (std::uint64_t index = exchanged_; index < sent_; ++index) {
      runs_[index % runs_.size()].append_missing(members);
    }
  }

  /// Whether the member is known to have begun the operation, from a message of its first block.
  bool has_heard_of(int member, const RmaWork& work) const {
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

 private:
  bool try_fill(RmaWork& work) {
    const std::size_t most = std::min(work.most_blocks_in_flight, stream_->layout.depth);
    if (filled_ == work.num_blocks || filled_ - finished_ == most) return false;
    work.copy_in(filled_);
    ++filled_;
    return true;
  }

  bool try_send(RmaWork& work) {
    if (sent_ == filled_) return false;
    const Progress progress = work.prepare(sent_);
    if (progress != Progress::done) return progress == Progress::advanced;
    const std::uint64_t block = base_ + sent_;
    runs_[sent_ % runs_.size()].begin(work.schedule_of(sent_), stream_->slot_offset(block),
                                      block + 1, work.own_operand(sent_));
    ++sent_;
    return true;
  }

  // All blocks use the same notification numbers, with values that grow from block to block. Who
  // looks for a value takes any larger one for it, so a block must not send a round before the
  // block in front of it has.
  bool exchange(const Combiner& combiner) {
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

  bool try_distribute(RmaWork& work) {
    if (distributed_ == exchanged_) return false;
    const Progress progress = work.distribute(distributed_);
    if (progress == Progress::done) ++distributed_;
    return progress != Progress::pending;
  }

  bool try_finish(RmaWork& work) {
    if (finished_ == distributed_ || !work.is_complete(finished_)) return false;
    work.copy_out(finished_);
    ++finished_;
    return true;
  }

  std::shared_ptr<RmaStream> stream_;
  std::vector<ScheduleRun> runs_;  // of the blocks that are exchanged, each by its index
  std::uint64_t base_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t exchanged_ = 0;
  std::uint64_t distributed_ = 0;
  std::uint64_t finished_ = 0;
};

inline void RmaWork::append_missing(std::vector<int>& members) const {
  pipeline_.append_missing(members);
}
inline const RmaStream& RmaWork::stream() const {
  return pipeline_.stream();
}
inline std::byte* RmaWork::slot(std::uint64_t index) const {
  return stream().slot(pipeline_.base() + index);
}

}  // namespace tnt::comm
