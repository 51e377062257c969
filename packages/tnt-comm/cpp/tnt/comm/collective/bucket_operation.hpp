#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {

struct BucketSpec {
  DType dtype = DType::float32;
  std::size_t count = 0;     ///< elements
  std::string name;          ///< for messages
  std::vector<Range> large;  ///< elements of the tensors that may be summed in place, ascending
  std::size_t num_tensors = 0;

  std::size_t num_bytes() const { return count * size_of(dtype); }
};

/// The allreduce of a bucket: a persistent one, as MPI_Allreduce_init makes. Set up once, it is
/// started in every training step, and is the same work as a call's; what is packed in place is
/// where its data comes from. This class is what is common to all kinds of memory.
///
/// A step is: packing of every tensor, post(), the engine, and use of the result, which
/// stays as it is until this rank packs for the next step.
class BucketOperation : public CollectiveOperation {
 public:
  BucketOperation(std::shared_ptr<AbortState> abort_state, std::string name)
      : CollectiveOperation(std::move(abort_state)), name_(std::move(name)) {}

  /// Says which of this rank's tensors have not been started; for messages.
  void set_own_part(std::function<std::string()> describe) {
    describe_own_part_ = std::move(describe);
  }

  /// The step's whole bucket is packed. Then the operation must go to the engine. Any thread.
  void post() {
    // Counted last: this rank's engine must not complete the step, and so allow
    // the next post(), before everybody has been told.
    const std::uint64_t step = num_posted_.load();
    announce(step);
    num_posted_.store(step + 1);
  }

  void complete() override {
    // Before the completion: who sees it may post the next step at once.
    ++current_;
    has_begun_ = false;
    CollectiveOperation::complete();
  }

  std::uint64_t num_posted() const { return num_posted_.load(); }

 protected:
  /// Whether the step that is at hand is this rank's to post.
  bool awaits_this_rank() const { return num_posted_.load() <= current_; }

  /// Part of post(): tells those who have to know.
  virtual void announce(std::uint64_t /*step*/) {}

  Progress do_advance() final {
    if (awaits_this_rank()) return Progress::pending;
    if (!has_begun_) has_begun_ = try_begin();
    return has_begun_ ? advance_step() : Progress::pending;
  }
  /// Whether the posted step could begin, which it then has.
  virtual bool try_begin() = 0;
  /// Likewise advances the step that has begun.
  virtual Progress advance_step() = 0;

  std::uint64_t current() const { return current_; }
  bool has_begun() const { return has_begun_; }

  std::string describe() const override { return text("step ", current_, " of ", name_); }
  std::string own_part() const override {
    return text("this rank itself, which has not started all tensors of the bucket",
                describe_own_part_ ? describe_own_part_() : "");
  }

 private:
  std::string name_;
  std::function<std::string()> describe_own_part_;
  std::atomic<std::uint64_t> num_posted_{0};
  std::uint64_t current_ = 0;
  bool has_begun_ = false;
};

}  // namespace tnt::comm
