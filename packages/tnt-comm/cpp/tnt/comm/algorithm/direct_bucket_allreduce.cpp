#include "tnt/comm/algorithm/direct_bucket_allreduce.hpp"

#include <utility>

namespace tnt::comm {

DirectBucketAllreduce::DirectBucketAllreduce(std::shared_ptr<Health> health,
                                             std::shared_ptr<Segment> segment,
                                             const BucketLayout& layout, DType dtype,
                                             std::size_t count, std::string name)
    : BucketOperation(std::move(health), std::move(name)),
      count_(count),
      windows_(std::move(segment), layout, dtype, WindowPair::Order::alternate),
      result_(count * size_of(dtype)) {}

std::byte* DirectBucketAllreduce::input(std::uint64_t step) {
  return windows_.own().data_of(windows_.own().open(step));
}

void DirectBucketAllreduce::announce(std::uint64_t step) {
  windows_.own().open(step);  // a bucket without tensors has nothing to pack
  windows_.post(step);
}

Progress DirectBucketAllreduce::step() {
  if (awaits_this_rank() || !windows_.have_all_posted(current())) return Progress::pending;
  windows_.reduce(current(), {0, count_}, result_.data());
  return Progress::done;
}

const std::byte* DirectBucketAllreduce::result(std::uint64_t) const {
  return result_.data();
}

std::vector<int> DirectBucketAllreduce::missing() const {
  return awaits_this_rank() ? std::vector<int>{} : windows_.missing_posts(current());
}

}  // namespace tnt::comm
