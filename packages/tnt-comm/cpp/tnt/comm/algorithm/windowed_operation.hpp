#pragma once

#include <cstdint>

#include "tnt/comm/algorithm/channel.hpp"
#include "tnt/comm/algorithm/collective_operation.hpp"

namespace tnt::comm {

/// State of a channel that runs one operation after the other.
struct ChannelState {
  Channel channel;
  std::uint64_t next_step = 0;  ///< the first step of the next operation
  std::uint64_t num_calls = 0;  ///< operations so far
};

/// A collective that goes through the windows of a channel, in as many steps
/// as the message needs, with up to `depth` of them under way.
///
/// Subclasses say what is copied in, reduced and copied out; this class owns
/// the order of things. In the first step all ranks compare what they think
/// they are doing.
class WindowedOperation : public CollectiveOperation {
 public:
  WindowedOperation(std::shared_ptr<Health> health, double stall_report_s,
                    std::shared_ptr<ChannelState> state, const Descriptor& descriptor);

  /// For a call that was begun without an operation: its first step is
  /// `next_step` of the channel, counted and posted already.
  void take_over(const Descriptor& descriptor);

 protected:
  Progress step() final;
  std::string describe() const final;
  std::vector<int> missing() const final;

  /// Steps of the whole operation, at least 1. May grow once, when the
  /// descriptors of all are known.
  std::uint64_t num_steps = 1;

  /// Whether the ranks reduce for each other, which takes a second round.
  bool has_second_round = false;

  /// Called once, when all descriptors are known and found to match.
  virtual void on_match() {}

  // `index` counts the operation's steps from 0; windows are of that step.
  virtual void copy_in(std::uint64_t index, std::byte* window) = 0;
  /// True when this rank's part of the step is reduced; called again if not.
  virtual bool reduce(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;

  const Channel& channel() const { return state_->channel; }
  std::byte* own_window(std::uint64_t index) { return state_->channel.window(base_ + index); }
  const std::byte* window_of(int member, std::uint64_t index) const {
    return state_->channel.window_of(member, base_ + index);
  }
  const Descriptor& descriptor_of(int member) const {
    return member == channel().rank() ? posting_.descriptor
                                      : state_->channel.descriptor_of(member, base_);
  }
  Posting posting_of(int member) const { return state_->channel.posting_of(member, base_); }
  const Descriptor& descriptor() const { return posting_.descriptor; }

  /// Says at the first step that the arrays can be reached. In the constructor.
  void share(const SharedPlaces& places) {
    posting_.is_shared = true;
    posting_.places = places;
  }
  bool is_shared() const { return posting_.is_shared; }

 private:
  void begin();
  bool try_post();
  bool try_reduce();
  bool try_finish();
  void require_match() const;

  std::shared_ptr<ChannelState> state_;
  Posting posting_;
  bool has_begun_ = false;
  bool is_matched_ = false;   // the descriptors of all are known and equal
  std::uint64_t base_ = 0;    // the channel's number of this operation's first step
  std::uint64_t posted_ = 0;  // steps posted, reduced and finished so far
  std::uint64_t reduced_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace tnt::comm
