#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tnt/comm/collective/channel.hpp"

namespace tnt::comm {

/// State of a channel that runs one operation after the other.
struct ChannelState {
  Channel channel;
  std::uint64_t next_block = 0;  ///< the first block of the next operation
  std::uint64_t num_calls = 0;   ///< operations so far
};

/// What is done in the blocks of one operation. `index` counts them from 0.
class StagedWork {
 public:
  virtual ~StagedWork() = default;

  /// Blocks of the whole operation, at least 1. May grow once, in
  /// on_first_posted().
  std::uint64_t num_blocks = 1;

  /// Whether the ranks reduce for each other, which takes a second round.
  bool has_second_round = false;

  /// Called when all have posted the first block, until it is true.
  virtual bool on_first_posted() { return true; }
  virtual void copy_in(std::uint64_t index, std::byte* slot) = 0;
  /// True when this rank's part of the block is reduced; called again if not.
  virtual bool reduce(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;
};

/// Takes an operation through the slots of a channel, with up to `depth` of
/// its blocks under way.
///
/// Threads: one at a time.
class StagingPipeline {
 public:
  explicit StagingPipeline(std::shared_ptr<ChannelState> state) : state_(std::move(state)) {}

  /// From the channel's next block on. `num_posted`: blocks that this rank has
  /// posted already.
  void begin(std::uint64_t num_posted = 0);

  /// Does what can be done now; true if that was anything.
  bool advance(StagedWork& work);
  bool is_done(const StagedWork& work) const { return finished_ == work.num_blocks; }

  /// The operation is done; the channel is free for the next one.
  void end() { state_->next_block = base_ + finished_; }

  ChannelState& state() const { return *state_; }
  const Channel& channel() const { return state_->channel; }
  /// The channel's number of the first block.
  std::uint64_t base() const { return base_; }

  std::byte* own_slot(std::uint64_t index) const { return state_->channel.slot(base_ + index); }
  const std::byte* slot_of(int member, std::uint64_t index) const {
    return state_->channel.slot_of(member, base_ + index);
  }
  std::byte* pair_slot(int asker, int answerer, std::uint64_t index) const {
    return state_->channel.pair_slot(asker, answerer, base_ + index);
  }

  /// Members whose next act is waited for.
  std::vector<int> missing() const;

 private:
  bool try_post(StagedWork& work);
  bool try_reduce(StagedWork& work);
  bool try_finish(StagedWork& work);

  std::shared_ptr<ChannelState> state_;
  bool is_first_posted_ = false;  // by all
  std::uint64_t base_ = 0;
  std::uint64_t posted_ = 0;  // blocks posted, reduced and finished so far
  std::uint64_t reduced_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace tnt::comm
