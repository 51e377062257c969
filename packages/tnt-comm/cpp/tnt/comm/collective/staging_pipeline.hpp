#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tnt/comm/collective/channel.hpp"
#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {

/// A channel that serves one operation after the other: the calls of a stream, or the steps of
/// buckets.
struct StagedStream {
  OperationContext context;
  Channel channel;
  std::uint64_t next_block = 0;  ///< the first block of the next operation
  std::uint64_t num_calls = 0;   ///< operations so far
};

class StagingPipeline;

/// What is done in the blocks of one collective. `index` counts them from 0.
class StagedWork {
 public:
  explicit StagedWork(const StagingPipeline& pipeline) : pipeline_(pipeline) {}
  virtual ~StagedWork() = default;

  /// Blocks of the whole operation, at least 1. May grow once, in on_match().
  std::uint64_t num_blocks = 1;

  /// Whether the ranks reduce for each other, which takes a second round.
  bool has_second_round = false;

  /// Where the arrays of a call are, to be said at the first block, if others can reach them.
  std::optional<SharedOffsets> places;

  /// Called once by a call, when all have said at its first block that they make the same one.
  virtual void on_match() {}
  virtual void copy_in(std::uint64_t index) = 0;
  /// True when this rank's part of the block is reduced; called again if not.
  virtual bool reduce(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;

 protected:
  const StagingPipeline& pipeline() const { return pipeline_; }
  const Channel& channel() const;

 private:
  const StagingPipeline& pipeline_;
};

/// Takes an operation through the slots of a channel, with up to `depth` of
/// its blocks under way.
///
/// Threads: one at a time.
class StagingPipeline {
 public:
  explicit StagingPipeline(std::shared_ptr<StagedStream> stream) : stream_(std::move(stream)) {}

  /// From the channel's next block on. `num_posted`: blocks that this rank has
  /// posted already.
  void begin(std::uint64_t num_posted = 0);

  /// Fills and posts the next block, if its slot is free.
  bool try_post(StagedWork& work);
  bool have_all_posted_first() const { return posted_ > 0 && channel().have_all_posted(base_); }

  /// Reduces and finishes what can be; true if that was anything. For a call, from on_match() on.
  bool advance(StagedWork& work);
  bool is_done(const StagedWork& work) const { return finished_ == work.num_blocks; }

  /// The operation is done; the channel is free for the next one.
  void end() { stream_->next_block = base_ + finished_; }

  StagedStream& stream() const { return *stream_; }
  const Channel& channel() const { return stream_->channel; }
  /// The channel's number of the first block.
  std::uint64_t base() const { return base_; }

  std::byte* slot_of(int member, std::uint64_t index) const {
    return channel().slot_of(member, base_ + index);
  }
  std::byte* pair_slot(int asker, int answerer, std::uint64_t index) const {
    return channel().pair_slot(asker, answerer, base_ + index);
  }

  /// Members whose next act is waited for.
  std::vector<int> missing() const;

 private:
  bool try_reduce(StagedWork& work);
  bool try_finish(StagedWork& work);

  std::shared_ptr<StagedStream> stream_;
  std::uint64_t base_ = 0;
  std::uint64_t posted_ = 0;  // blocks posted, reduced and finished so far
  std::uint64_t reduced_ = 0;
  std::uint64_t finished_ = 0;
};

inline const Channel& StagedWork::channel() const {
  return pipeline_.channel();
}

}  // namespace tnt::comm
