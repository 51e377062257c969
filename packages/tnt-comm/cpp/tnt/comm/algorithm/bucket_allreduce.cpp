#include "tnt/comm/algorithm/bucket_allreduce.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/algorithm/slices.hpp"

namespace tnt::comm {
namespace {

// What one call of step() reduces at most, so that other operations get their
// turn: some tens of microseconds.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

// What is reduced before it is spread: small enough to be still in the
// first-level cache then.
constexpr std::size_t kBytesPerPiece = 16 * 1024;

// Alone, the input is the result already.
bool is_direct(std::size_t num_bytes, int num_members) {
  return num_members > 1 && num_bytes <= direct_allreduce_limit_bytes(num_members);
}

}  // namespace

BucketAllreduce::BucketAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                                 std::shared_ptr<Segment> segment, const BucketLayout& layout,
                                 DType dtype, std::size_t count, std::string name)
    : BucketOperation(std::move(health), stall_report_s, std::move(name)),
      dtype_(dtype),
      count_(count),
      is_direct_(is_direct(count * size_of(dtype), segment->size())),
      windows_(segment, layout, dtype,
               is_direct_ ? WindowPair::Order::alternate : WindowPair::Order::reuse),
      direct_result_(is_direct_ ? count * size_of(dtype) : 0) {}

std::byte* BucketAllreduce::input(std::uint64_t step) {
  return windows_.own().data_of(windows_.own().open(step));
}

void BucketAllreduce::announce(std::uint64_t step) {
  windows_.own().open(step);  // a bucket without tensors has nothing to pack
  windows_.post(step);
}

Progress BucketAllreduce::step() {
  if (awaits_this_rank() || !windows_.have_all_posted(current())) {
    return Progress::pending;
  }
  if (!is_published_) {
    if (!reduce_some()) return Progress::advanced;
    if (!is_direct_) windows_.publish_reduced(current());
    is_published_ = true;
  }
  const bool is_done = is_direct_ || windows_.have_all_reduced(current());
  return is_done ? Progress::done : Progress::pending;
}

bool BucketAllreduce::reduce_some() {
  if (is_direct_) {
    windows_.reduce(current(), {0, count_}, direct_result_.data());
    return true;
  }
  const std::size_t stride = size_of(dtype_);
  const Range slice = slice_of(count_, dtype_, windows_.size(), windows_.rank());
  const std::size_t begin = slice.begin + num_reduced_;
  const std::size_t end = std::min(slice.end, begin + kBytesPerTurn / stride);
  std::byte* window = windows_.own_window(current());
  for (Range piece{begin, begin}; piece.begin < end; piece.begin = piece.end) {
    piece.end = std::min(end, piece.begin + kBytesPerPiece / stride);
    windows_.reduce(current(), piece, window + piece.begin * stride);
    windows_.spread(current(), piece);
  }
  num_reduced_ += end - begin;
  return num_reduced_ == slice.size();
}

void BucketAllreduce::reset() {
  num_reduced_ = 0;
  is_published_ = false;
}

const std::byte* BucketAllreduce::result(std::uint64_t step) const {
  return is_direct_ ? direct_result_.data() : windows_.own_window(step);
}

std::shared_ptr<WindowPair> BucketAllreduce::try_lend(std::uint64_t step, std::size_t& window) {
  if (!windows_.own().try_lend(step)) return nullptr;
  window = windows_.own().window_of(step);
  return windows_.shared_own();
}

std::vector<int> BucketAllreduce::missing() const {
  if (awaits_this_rank()) return {};
  return is_published_ ? windows_.missing_reductions(current()) : windows_.missing_posts(current());
}

}  // namespace tnt::comm
