#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/rma_channel.hpp"
#include "tnt/comm/collective/rma/run_queue.hpp"

namespace tnt::comm {

/// A channel that runs one operation after the other.
struct RmaStream {
  RmaChannel channel;
  std::uint64_t next_block = 0;  ///< the first block of the next operation
};

/// A collective among ranks that can only put into each other's memory: in as
/// many blocks as the message needs, with several of them under way.
///
/// Subclasses say what is copied in and out and which messages are exchanged;
/// this class owns the order of things. All ranks compare what they think they
/// are doing while the first blocks are under way. Nothing is copied out before
/// they have agreed, and no operation is complete: so when a rank has completed
/// a call, all have begun it, and hence completed the one before.
///
/// That makes it safe to use the slots for different collectives in turn.
/// Data sent before the fingerprint check goes to landing areas, for the first `depth`
/// blocks: RmaChannel's argument covers them where the call before had that
/// structure too, and a broadcast uses no landing area. An operation that
/// writes elsewhere, or needs to know the others' counts, waits for the
/// fingerprint check, after which all slots are free everywhere.
class RmaOperation : public CollectiveOperation {
 public:
  RmaOperation(std::shared_ptr<AbortState> abort_state,
               std::shared_ptr<FingerprintCheck> fingerprint_check,
               std::shared_ptr<RmaStream> stream, const Descriptor& descriptor);

 protected:
  Progress do_advance() final;
  std::string describe() const final;
  std::vector<int> missing() const final;
  std::vector<int> awaited_members() const final;
  bool has_made_call(int member) const final;
  std::string own_part() const final;

  /// Set by the constructor of the subclass, or by on_match().
  std::uint64_t num_blocks = 0;
  /// At most the channel's depth.
  std::size_t most_blocks_in_flight;
  bool sends_before_match = false;
  bool shares_counts = false;

  /// Called once, before anything is copied out.
  virtual void on_match() {}

  // `index` counts the operation's blocks from 0.

  /// Fills what this rank sends in the slot of the block.
  virtual void copy_in(std::uint64_t index) = 0;
  /// Whether the exchange may begin.
  virtual bool is_filled(std::uint64_t /*index*/) { return true; }
  /// Must stay as it is until the block is finished.
  virtual const Schedule& schedule_of(std::uint64_t index) const = 0;
  virtual Combiner combiner() { return {}; }
  /// The exchange is over.
  virtual void on_exchanged(std::uint64_t /*index*/) {}
  /// Whether everything is there that copy_out() reads.
  virtual bool is_complete(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;

  /// Appends group members whose data is waited for.
  virtual void append_missing(std::vector<int>& members) const { runs_.append_missing(members); }

  const RmaChannel& channel() const { return stream_->channel; }
  const FingerprintCheck& check() const { return *check_; }
  const Descriptor& descriptor() const { return descriptor_; }
  const RunQueue& runs() const { return runs_; }
  std::uint64_t first_block() const { return base_; }
  std::byte* slot(std::uint64_t index) const { return channel().slot(base_ + index); }

  /// Blocks whose data was copied in, and whose exchange is over.
  std::uint64_t num_begun() const { return begun_; }
  std::uint64_t num_exchanging() const { return exchanging_; }
  std::uint64_t num_exchanged() const { return exchanged_; }
  std::uint64_t num_finished() const { return finished_; }

 private:
  void begin();
  bool advance_check();
  bool try_begin_block();
  bool try_begin_exchange();
  bool try_end_exchange();
  bool try_finish();

  std::shared_ptr<FingerprintCheck> check_;
  std::shared_ptr<RmaStream> stream_;
  Descriptor descriptor_;
  RunQueue runs_;
  bool has_begun_ = false;
  bool has_matched_ = false;
  std::uint64_t base_ = 0;   // the channel's number of this operation's first block
  std::uint64_t begun_ = 0;  // blocks so far
  std::uint64_t exchanging_ = 0;
  std::uint64_t exchanged_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace tnt::comm
