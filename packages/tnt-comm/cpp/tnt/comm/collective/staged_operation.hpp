#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

/// A collective that goes through the slots of a channel, in as many blocks
/// as the message needs.
///
/// Subclasses say what is copied in, reduced and copied out. In the first block
/// all ranks compare what they think they are doing. If any two differ, each rank
/// finds one that differs from itself: then all tell their notes, and fail.
class StagedOperation : public CollectiveOperation, protected StagedWork {
 public:
  StagedOperation(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                  const Descriptor& descriptor);

  /// For a call that was begun without an operation: its first block is
  /// `next_block` of the channel, counted and posted already.
  void take_over(const Descriptor& descriptor);

 protected:
  Progress do_advance() final;
  std::string describe() const final;
  std::vector<int> missing() const final;
  bool has_made_call(int member) const final;
  Error explained(const Error& error) const final;

  /// Called once, when all descriptors are known and found to match.
  virtual void on_match() {}

  const StagingPipeline& pipeline() const { return pipeline_; }
  const Channel& channel() const { return pipeline_.channel(); }
  std::byte* own_slot(std::uint64_t index) { return pipeline_.own_slot(index); }
  const std::byte* slot_of(int member, std::uint64_t index) const {
    return pipeline_.slot_of(member, index);
  }
  const Descriptor& descriptor_of(int member) const {
    return member == channel().rank() ? posting_.descriptor
                                      : channel().descriptor_of(member, pipeline_.base());
  }
  Posting posting_of(int member) const { return channel().posting_of(member, pipeline_.base()); }
  const Descriptor& descriptor() const { return posting_.descriptor; }

  /// Says at the first block that the arrays can be reached. In the constructor.
  void share(const SharedOffsets& places) {
    posting_.is_shared = true;
    posting_.places = places;
  }
  bool is_shared() const { return posting_.is_shared; }

 private:
  void begin();
  bool on_first_posted() final;
  bool do_all_match() const;
  void exchange_notes();
  Error mismatch() const;

  StagingPipeline pipeline_;
  Posting posting_;
  bool has_begun_ = false;
  bool is_mismatch_ = false;  // found; the notes are still exchanged
};

}  // namespace tnt::comm
