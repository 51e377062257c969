#include "tnt/comm/collective/bucket_operation.hpp"

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

BucketOperation::BucketOperation(std::shared_ptr<AbortState> abort_state, std::string name)
    : CollectiveOperation(std::move(abort_state)), name_(std::move(name)) {}

void BucketOperation::post() {
  // Counted last: this rank's engine must not complete the step, and so allow
  // the next post(), before everybody has been told.
  const std::uint64_t step = num_posted_.load();
  announce(step);
  num_posted_.store(step + 1);
}

Progress BucketOperation::do_advance() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) has_begun_ = try_begin();
  return has_begun_ ? advance_step() : Progress::pending;
}

void BucketOperation::complete() {
  // Before the completion: who sees it may post the next step at once.
  ++current_;
  has_begun_ = false;
  CollectiveOperation::complete();
}

std::shared_ptr<DoubleBuffer> BucketOperation::try_lend(std::uint64_t step,
                                                        std::size_t& slot) const {
  std::shared_ptr<DoubleBuffer> slots = lendable();
  if (!slots || !slots->try_lend(step)) return nullptr;
  slot = slots->slot_of(step);
  return slots;
}

std::string BucketOperation::describe() const {
  return text("step ", current_, " of ", name_);
}

std::string BucketOperation::own_part() const {
  return text("this rank itself, which has not started all tensors of the bucket",
              describe_own_part_ ? describe_own_part_() : "");
}

}  // namespace tnt::comm
