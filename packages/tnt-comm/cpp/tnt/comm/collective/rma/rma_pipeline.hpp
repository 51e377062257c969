#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/rma_staging.hpp"
#include "tnt/comm/collective/rma/schedule_run.hpp"
#include "tnt/comm/progress/operation.hpp"

namespace tnt::comm {

/// Staging slots that serve one operation after the other: the calls of a stream, or the steps of a
/// bucket.
struct RmaStream {
  std::shared_ptr<AbortState> abort_state;
  std::shared_ptr<FingerprintCheck> check;  ///< of calls
  RmaStaging staging;
  std::uint64_t next_block = 0;  ///< the first block of the next operation
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
  /// At most the depth.
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
  /// Called when the exchange is over, until it is `done`.
  virtual Progress distribute(std::uint64_t /*index*/) { return Progress::done; }
  /// Whether everything is there that copy_out() reads.
  virtual bool is_complete(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t /*index*/) {}

  /// Appends group members whose data is waited for.
  virtual void append_missing(std::vector<int>& members) const;

 protected:
  const RmaPipeline& pipeline() const { return pipeline_; }
  const RmaStaging& staging() const;
  std::byte* slot(std::uint64_t index) const;

 private:
  const RmaPipeline& pipeline_;
};

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
  bool is_done(const RmaWork& work) const { return finished_ == work.num_blocks; }

  /// The operation is done; the slots are free for the next one.
  void end() { stream_->next_block = base_ + finished_; }

  RmaStream& stream() const { return *stream_; }
  const RmaStaging& staging() const { return stream_->staging; }
  std::uint64_t base() const { return base_; }  ///< the stream's number of the first block

  // Blocks so far.
  std::uint64_t num_filled() const { return filled_; }
  std::uint64_t num_sent() const { return sent_; }  ///< whose exchange has begun
  std::uint64_t num_distributed() const { return distributed_; }
  std::uint64_t num_finished() const { return finished_; }

  void append_missing(std::vector<int>& members) const { runs_.append_missing(members); }

  /// Whether the member is known to have begun the operation, from a message of its first block.
  bool has_heard_of(int member, const RmaWork& work) const;

 private:
  bool try_fill(RmaWork& work);
  bool try_send(RmaWork& work);
  bool try_distribute(RmaWork& work);
  bool try_finish(RmaWork& work);

  std::shared_ptr<RmaStream> stream_;
  RunQueue runs_;
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
inline const RmaStaging& RmaWork::staging() const {
  return pipeline_.staging();
}
inline std::byte* RmaWork::slot(std::uint64_t index) const {
  return staging().slot(pipeline_.base() + index);
}

}  // namespace tnt::comm
