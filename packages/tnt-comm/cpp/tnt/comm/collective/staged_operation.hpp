#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

/// A call of a collective that goes through the slots of a channel, in as many blocks
/// as the message needs.
///
/// In the first block all ranks compare what they think they are doing. If any two differ, each
/// rank finds one that differs from itself: then all tell their notes, and fail.
class StagedOperation : public CollectiveOperation {
 public:
  /// For a call that was begun without an operation: its first block is
  /// `next_block` of the channel, counted and posted already.
  void take_over(const Descriptor& descriptor);

 protected:
  /// `work` belongs to the subclass.
  StagedOperation(std::shared_ptr<StagedStream> stream, const Descriptor& descriptor,
                  StagedWork& work);

  const StagingPipeline& pipeline() const { return pipeline_; }

  Progress do_advance() final;
  std::string describe() const final;
  std::vector<int> missing() const final;
  bool has_made_call(int member) const final;
  Error explained(const Error& error) const final;

 private:
  const Channel& channel() const { return pipeline_.channel(); }
  void begin();
  void match();
  void exchange_notes();
  Error mismatch() const;

  StagingPipeline pipeline_;
  Descriptor descriptor_;
  StagedWork& work_;
  bool has_begun_ = false;
  bool has_matched_ = false;
  bool is_mismatch_ = false;  // found; the notes are still exchanged
};

/// A call that does this work.
template <typename Work>
class StagedCall final : public StagedOperation {
 public:
  template <typename... Arguments>
  StagedCall(std::shared_ptr<StagedStream> stream, const Descriptor& descriptor,
             Arguments&&... arguments)
      : StagedOperation(std::move(stream), descriptor, work_),
        work_(pipeline(), descriptor, std::forward<Arguments>(arguments)...) {}

 private:
  Work work_;
};

}  // namespace tnt::comm
