#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/double_buffer.hpp"

namespace tnt::comm {

/// A bucket that is to be summed over a group in every step.
struct BucketSpec {
  DType dtype = DType::float32;
  std::size_t count = 0;     ///< elements
  std::string name;          ///< for messages
  std::vector<Range> large;  ///< elements of the tensors that may be placed, ascending

  std::size_t num_bytes() const { return count * size_of(dtype); }
};

/// A tensor that is summed where it lies, without being packed.
struct InPlaceTensor {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;               ///< where its sum goes; may be `in`
  double scale = 1;                       ///< what is summed is scale * in
  std::shared_ptr<void> owner = nullptr;  ///< keeps both where they are
};

/// The allreduce of a bucket: a persistent one, as MPI_Allreduce_init makes. Set up once, it is
/// started in every training step, and is the same work as a call's; what is packed in place is
/// where its data comes from. This class is what is common to all kinds of memory.
///
/// A step is: input() and packing for every tensor, post(), the engine, and
/// result() or try_lend(). The result of step s stays as it is until this rank
/// packs for step s+1; where it is lent, until it is given back. Some buckets
/// let large tensors stay where they are: place() instead of packing.
class BucketOperation : public CollectiveOperation {
 public:
  BucketOperation(std::shared_ptr<AbortState> abort_state, std::string name);

  /// Says which of this rank's tensors have not been started; for messages.
  void set_own_part(std::function<std::string()> describe) {
    describe_own_part_ = std::move(describe);
  }

  /// Where the bucket of a step is packed. To be called for every tensor.
  virtual std::byte* input(std::uint64_t step) = 0;

  /// Whether the `place`-th of the bucket's large tensors can be placed.
  virtual bool may_be_in_place(std::size_t /*place*/) const { return false; }

  /// For this step, the tensor is not in the bucket but there. It is until
  /// release(), which must not come before the step is complete.
  virtual void place(std::size_t /*place*/, InPlaceTensor /*tensor*/) {}
  virtual void release(std::size_t /*place*/) {}

  /// The whole bucket of step `next` is packed. Then the operation must be
  /// given to the engine. Any thread.
  void post();

  void complete() override;

  /// The completed step's whole bucket, to be read.
  virtual const std::byte* result(std::uint64_t step) const = 0;

  /// Lends the completed step's slot, or null if that is not possible now.
  /// Nobody writes to it until the lent slots have taken it back.
  std::shared_ptr<DoubleBuffer> try_lend(std::uint64_t step, std::size_t& slot) const;

  /// Steps that this rank has posted.
  std::uint64_t num_posted() const { return num_posted_.load(); }

  bool awaits_this_rank() const override { return num_posted_.load() <= current_; }

 protected:
  /// Part of post(): tells those who have to know.
  virtual void announce(std::uint64_t /*step*/) {}
  Progress do_advance() final;
  /// Whether the posted step could begin, which it then has.
  virtual bool try_begin() = 0;
  /// Likewise advances the step that has begun.
  virtual Progress advance_step() = 0;
  /// The slots that hold the results, if these can be lent.
  virtual std::shared_ptr<DoubleBuffer> lendable() const { return nullptr; }

  /// The step that is reduced.
  std::uint64_t current() const { return current_; }
  bool has_begun() const { return has_begun_; }

  std::string describe() const override;
  std::string own_part() const override;

 private:
  std::string name_;
  std::function<std::string()> describe_own_part_;
  std::atomic<std::uint64_t> num_posted_{0};
  std::uint64_t current_ = 0;
  bool has_begun_ = false;
};

}  // namespace tnt::comm
