#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/collective_operation.hpp"
#include "tnt/comm/algorithm/descriptor.hpp"
#include "tnt/comm/algorithm/network/agreement.hpp"
#include "tnt/comm/algorithm/network/network_channel.hpp"
#include "tnt/comm/algorithm/network/run_queue.hpp"

namespace tnt::comm {

/// A channel that runs one operation after the other.
struct NetworkStream {
  NetworkChannel channel;
  std::uint64_t next_step = 0;  ///< the first step of the next operation
};

/// A collective among ranks that can only put into each other's memory: in as
/// many steps as the message needs, with several of them under way.
///
/// Subclasses say what is copied in and out and which messages are exchanged;
/// this class owns the order of things. All ranks compare what they think they
/// are doing while the first steps are under way. Nothing is copied out before
/// they have agreed, and no operation is complete: so when a rank has completed
/// a call, all have begun it, and hence completed the one before.
///
/// That makes it safe to use the windows for different collectives in turn.
/// Data sent before the agreement goes to landing areas, for the first `depth`
/// steps: NetworkChannel's argument covers them where the call before had that
/// structure too, and a broadcast uses no landing area. An operation that
/// writes elsewhere, or needs to know the others' counts, waits for the
/// agreement, after which all windows are free everywhere.
class NetworkOperation : public CollectiveOperation {
 public:
  NetworkOperation(std::shared_ptr<Health> health, std::shared_ptr<Agreement> agreement,
                   std::shared_ptr<NetworkStream> stream, const Descriptor& descriptor);

 protected:
  Progress step() final;
  std::string describe() const final;
  std::vector<int> missing() const final;
  std::vector<int> awaited_members() const final;
  bool has_made_call(int member) const final;
  std::string own_part() const final;

  /// Set by the constructor of the subclass, or by on_agreement().
  std::uint64_t num_steps = 0;
  /// At most the channel's depth.
  std::size_t most_steps_under_way;
  bool sends_before_agreement = false;
  bool shares_counts = false;

  /// Called once, before anything is copied out.
  virtual void on_agreement() {}

  // `index` counts the operation's steps from 0.

  /// Fills what this rank sends in the window of the step.
  virtual void copy_in(std::uint64_t index) = 0;
  /// Whether the exchange may begin.
  virtual bool is_filled(std::uint64_t /*index*/) { return true; }
  /// Must stay as it is until the step is finished.
  virtual const Schedule& schedule_of(std::uint64_t index) const = 0;
  virtual Combiner combiner() { return {}; }
  /// The exchange is over.
  virtual void on_exchanged(std::uint64_t /*index*/) {}
  /// Whether everything is there that copy_out() reads.
  virtual bool is_complete(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;

  /// Appends group members whose data is waited for.
  virtual void append_missing(std::vector<int>& members) const { runs_.append_missing(members); }

  const NetworkChannel& channel() const { return stream_->channel; }
  const Agreement& agreement() const { return *agreement_; }
  const Descriptor& descriptor() const { return descriptor_; }
  const RunQueue& runs() const { return runs_; }
  std::uint64_t first_step() const { return base_; }
  std::byte* window(std::uint64_t index) const { return channel().window(base_ + index); }

  /// Steps whose data was copied in, and whose exchange is over.
  std::uint64_t num_begun() const { return begun_; }
  std::uint64_t num_exchanging() const { return exchanging_; }
  std::uint64_t num_exchanged() const { return exchanged_; }
  std::uint64_t num_finished() const { return finished_; }

 private:
  void begin();
  bool advance_agreement();
  bool try_begin_step();
  bool try_begin_exchange();
  bool try_end_exchange();
  bool try_finish();

  std::shared_ptr<Agreement> agreement_;
  std::shared_ptr<NetworkStream> stream_;
  Descriptor descriptor_;
  RunQueue runs_;
  bool has_begun_ = false;
  bool has_agreed_ = false;
  std::uint64_t base_ = 0;   // the channel's number of this operation's first step
  std::uint64_t begun_ = 0;  // steps so far
  std::uint64_t exchanging_ = 0;
  std::uint64_t exchanged_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace tnt::comm
