#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
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
RmaLayout stream_layout(int num_members, std::size_t work_bytes);

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
             const std::byte* own = nullptr);

  /// Does what can be done now, but no more than one long combination; true if
  /// that was anything. Sends no round from `sendable_rounds` on.
  bool advance(std::size_t sendable_rounds, const Combiner& combiner);

  bool is_done() const { return round_ == schedule_->rounds.size(); }

  /// Whether this run can do nothing before messages of its round arrive.
  bool is_waiting() const {
    return num_sent_rounds_ > round_ && !is_done() &&
           num_received_ < schedule_->rounds[round_].arrivals.size();
  }
  std::size_t round() const { return round_; }

  std::size_t num_sent_rounds() const { return num_sent_rounds_; }

  /// Appends the members whose message the current round still waits for.
  void append_missing(std::vector<int>& members) const;

 private:
  bool send(const Round& round, std::size_t sendable_rounds);
  bool receive(const Round& round);
  void combine(const Round& round, const Combiner& combiner);
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

class RmaWork;

/// Takes an operation through the slots of a stream, with up to `depth` of its blocks under
/// way: each is filled, prepared, exchanged, distributed and copied out. StagingPipeline, which
/// knows none of these but rounds of looks at slots, is shorter and a short call's whole time.
/// Threads: one at a time.
class RmaPipeline {
 public:
  explicit RmaPipeline(std::shared_ptr<RmaStream> stream);

  /// From the stream's next block on. `num_filled`: blocks that are packed in their slots already.
  void begin(std::uint64_t num_filled = 0);

  /// Does what can be done without waiting; true if that was anything. `has_matched`: all ranks
  /// take part in the same operation.
  bool advance(RmaWork& work, bool has_matched);
  bool is_done(const RmaWork& work) const;

  /// The operation is done; the slots are free for the next one.
  void end() { stream_->next_block = base_ + finished_; }

  RmaStream& stream() const { return *stream_; }
  std::uint64_t base() const { return base_; }  ///< the stream's number of the first block

  std::uint64_t num_filled() const { return filled_; }
  std::uint64_t num_sent() const { return sent_; }  ///< whose exchange has begun
  std::uint64_t num_distributed() const { return distributed_; }
  std::uint64_t num_finished() const { return finished_; }

  /// Appends the members that any block waits for, those of the oldest first.
  void append_missing(std::vector<int>& members) const;

  /// Whether the member is known to have begun the operation, from a message of its first block.
  bool has_heard_of(int member, const RmaWork& work) const;

 private:
  bool try_fill(RmaWork& work);
  bool try_send(RmaWork& work);
  bool exchange(const Combiner& combiner);
  bool try_distribute(RmaWork& work);
  bool try_finish(RmaWork& work);

  std::shared_ptr<RmaStream> stream_;
  std::vector<ScheduleRun> runs_;  // of the blocks that are exchanged, each by its index
  std::uint64_t base_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t exchanged_ = 0;
  std::uint64_t distributed_ = 0;
  std::uint64_t finished_ = 0;
};

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
  /// Whether what is done besides the exchange takes time, and so is done for one block per call of
  /// advance().
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
  virtual void append_missing(std::vector<int>& members) const {
    pipeline_.append_missing(members);
  }

 protected:
  const RmaPipeline& pipeline() const { return pipeline_; }
  const RmaStream& stream() const { return pipeline_.stream(); }
  std::byte* slot(std::uint64_t index) const { return stream().slot(pipeline_.base() + index); }

 private:
  const RmaPipeline& pipeline_;
};

}  // namespace tnt::comm
