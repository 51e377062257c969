#include "tnt/comm/collective/one_shot_bucket_allreduce.hpp"

#include <utility>

namespace tnt::comm {

OneShotBucketAllreduce::OneShotBucketAllreduce(std::shared_ptr<AbortState> abort_state,
                                               std::shared_ptr<Segment> segment,
                                               const BucketLayout& layout, DType dtype,
                                               std::size_t count, std::string name)
    : BucketOperation(std::move(abort_state), std::move(name)),
      count_(count),
      slots_(std::move(segment), layout, dtype, DoubleBuffer::Order::alternate),
      result_(count * size_of(dtype)) {}

std::byte* OneShotBucketAllreduce::input(std::uint64_t step) {
  return slots_.own().data_of(slots_.own().open(step));
}

void OneShotBucketAllreduce::announce(std::uint64_t step) {
  slots_.own().open(step);  // a bucket without tensors has nothing to pack
  slots_.post(step);
}

Progress OneShotBucketAllreduce::do_advance() {
  if (awaits_this_rank() || !slots_.have_all_posted(current())) return Progress::pending;
  slots_.reduce(current(), {0, count_}, result_.data());
  return Progress::done;
}

const std::byte* OneShotBucketAllreduce::result(std::uint64_t) const {
  return result_.data();
}

std::vector<int> OneShotBucketAllreduce::missing() const {
  return awaits_this_rank() ? std::vector<int>{} : slots_.missing_posts(current());
}

}  // namespace tnt::comm
