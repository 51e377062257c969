#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/slot_ring.hpp"

namespace tnt::comm {

/// A ring that serves one operation after the other: calls of a stream, or steps of buckets.
struct StagedStream {
  OperationContext context;
  SlotRing ring;
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
  std::optional<SharedOffsets> shared_offsets;

  /// Called once by a call, when all have said at its first block that they make the same one.
  virtual void on_match() {}
  virtual void copy_in(std::uint64_t index) = 0;
  /// True when this rank's part of the block is reduced; called again if not.
  virtual bool reduce(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t index) = 0;

 protected:
  const StagingPipeline& pipeline() const { return pipeline_; }
  const SlotRing& ring() const;
  const SumTree& tree() const;

 private:
  const StagingPipeline& pipeline_;
};

/// Takes an operation through the slots of a ring, with up to `depth` of its blocks under way.
///
/// Threads: one at a time.
class StagingPipeline {
 public:
  explicit StagingPipeline(std::shared_ptr<StagedStream> stream) : stream_(std::move(stream)) {}

  /// From the ring's next block on. `num_posted`: blocks that this rank has posted already.
  void begin(std::uint64_t num_posted = 0) {
    base_ = stream_->next_block;
    posted_ = num_posted;
    reduced_ = finished_ = 0;
  }

  /// Posts the next block, if its slot is free; reduces and finishes what can be, from the moment
  /// on that `has_matched()`. When it is `done`, the ring is free for the next operation.
  template <typename Condition>
  Progress advance(StagedWork& work, const Condition& has_matched) {
    bool has_moved = try_post(work);
    if (has_matched()) {
      has_moved |= try_reduce(work);
      has_moved |= try_finish(work);
    }
    if (finished_ < work.num_blocks) return has_moved ? Progress::advanced : Progress::pending;
    stream_->next_block = base_ + finished_;
    return Progress::done;
  }
  bool have_all_posted_first() const { return posted_ > 0 && ring().have_all_posted(base_); }

  StagedStream& stream() const { return *stream_; }
  const SlotRing& ring() const { return stream_->ring; }
  /// The ring's number of the first block.
  std::uint64_t base() const { return base_; }

  std::byte* slot_of(int member, std::uint64_t index) const {
    return ring().slot_of(member, base_ + index);
  }
  std::byte* pair_slot(int asker, int answerer, std::uint64_t index) const {
    return ring().pair_slot(asker, answerer, base_ + index);
  }

  /// Members whose next act is waited for.
  std::vector<int> missing() const {
    if (reduced_ < posted_) return ring().missing_posts(base_ + reduced_);
    if (finished_ < reduced_) return ring().missing_reductions(base_ + finished_);
    return {};
  }

 private:
  bool try_post(StagedWork& work) {
    if (posted_ == work.num_blocks || posted_ == finished_ + ring().depth()) return false;
    work.copy_in(posted_);
    stream_->ring.post(base_ + posted_);
    ++posted_;
    return true;
  }
  bool try_reduce(StagedWork& work) {
    if (reduced_ == posted_ || !ring().have_all_posted(base_ + reduced_)) return false;
    if (work.has_second_round) {
      if (!work.reduce(reduced_)) return true;
      stream_->ring.publish_reduced(base_ + reduced_);
    }
    ++reduced_;
    return true;
  }
  bool try_finish(StagedWork& work) {
    if (finished_ == reduced_) return false;
    if (work.has_second_round && !ring().have_all_reduced(base_ + finished_)) return false;
    work.copy_out(finished_);
    ++finished_;
    return true;
  }

  std::shared_ptr<StagedStream> stream_;
  std::uint64_t base_ = 0;
  std::uint64_t posted_ = 0;  // blocks posted, reduced and finished so far
  std::uint64_t reduced_ = 0;
  std::uint64_t finished_ = 0;
};

inline const SlotRing& StagedWork::ring() const {
  return pipeline_.ring();
}

inline const SumTree& StagedWork::tree() const {
  return pipeline_.stream().context.tree;
}

/// A call of a collective that goes through the slots of a ring, in as many blocks as it needs.
///
/// In the first block all ranks compare what they think they are doing. If any two differ, each
/// rank finds one that differs from itself: then all tell their notes, and fail.
class StagedOperation : public CollectiveOperation {
 public:
  /// For a call that was begun without an operation: its first block is
  /// `next_block` of the ring, counted and posted already.
  void take_over(const Descriptor& descriptor) {
    has_begun_ = true;
    descriptor_ = descriptor;
    pipeline_.begin(1);
  }

 protected:
  /// `work` belongs to the subclass.
  StagedOperation(std::shared_ptr<StagedStream> stream, const Descriptor& descriptor,
                  StagedWork& work)
      : CollectiveOperation(stream->context.abort_state),
        pipeline_(std::move(stream)),
        descriptor_(descriptor),
        work_(work) {}

  const StagingPipeline& pipeline() const { return pipeline_; }

  Progress do_advance() final {
    if (!has_begun_) begin();
    return pipeline_.advance(work_, [this] { return has_matched_ || try_match(); });
  }
  std::string describe() const final { return describe_call(descriptor_); }
  std::vector<int> missing() const final {
    if (is_mismatch_) return ring().missing_notes(pipeline_.base());
    return has_begun_ ? pipeline_.missing() : std::vector<int>{};
  }
  bool has_made_call(int member) const final {
    return has_begun_ && ring().has_posted(member, pipeline_.base());
  }
  Error explained(const Error& error) const final {
    // Who ends before it has told its note has still made another call.
    return is_mismatch_ ? mismatch() : CollectiveOperation::explained(error);
  }

 private:
  SlotRing& ring() const { return pipeline_.stream().ring; }

  void begin() {
    has_begun_ = true;
    pipeline_.begin();
    descriptor_.call_index = pipeline_.stream().num_calls++;
    const SharedOffsets* offsets = work_.shared_offsets ? &*work_.shared_offsets : nullptr;
    ring().describe(pipeline_.base(), descriptor_, offsets);
  }

  bool try_match() {
    if (!pipeline_.have_all_posted_first()) return false;
    for (int member = 0; member < ring().size(); ++member) {
      is_mismatch_ |= !descriptor_.matches(ring().descriptor_of(member, pipeline_.base()));
    }
    if (is_mismatch_) {
      exchange_notes();
      return false;
    }
    has_matched_ = true;
    work_.on_match();
    return true;
  }

  // Throws when all are known.
  void exchange_notes() {
    if (!note().is_given()) return;
    const std::uint64_t block = pipeline_.base();
    if (!ring().has_told_note(ring().rank(), block)) ring().tell_note(block, note().text());
    if (ring().missing_notes(block).empty()) throw mismatch();
  }

  Error mismatch() const {
    std::vector<MadeCall> calls;
    for (int member = 0; member < ring().size(); ++member) {
      calls.push_back({ring().descriptor_of(member, pipeline_.base()),
                       ring().note_of(member, pipeline_.base())});
    }
    return mismatch_error(*abort_state(), calls);
  }

  StagingPipeline pipeline_;
  Descriptor descriptor_;
  StagedWork& work_;
  bool has_begun_ = false;
  bool has_matched_ = false;
  bool is_mismatch_ = false;  // found; the notes are still exchanged
};

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
