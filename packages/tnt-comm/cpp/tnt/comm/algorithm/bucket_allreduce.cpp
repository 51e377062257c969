#include "tnt/comm/algorithm/bucket_allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/algorithm/slices.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

// What one call of step() reduces at most, so that other operations get their
// turn: some tens of microseconds.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

}  // namespace

BucketAllreduce::BucketAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                                 std::shared_ptr<Segment> segment, const ChannelLayout& layout,
                                 DType dtype, std::size_t count, std::string name)
    : CollectiveOperation(std::move(health), stall_report_s),
      channel_(std::move(segment), layout),
      dtype_(dtype),
      count_(count),
      name_(std::move(name)),
      // Alone, the input is the result already.
      is_direct_(channel_.size() > 1 &&
                 count * size_of(dtype) <= direct_allreduce_limit_bytes(channel_.size())),
      direct_result_(is_direct_ ? count * size_of(dtype) : 0),
      sources_(static_cast<std::size_t>(channel_.size())),
      reducer_(dtype, ReduceOp::sum, sources_.size()) {}

void BucketAllreduce::post() {
  // Counted last: this rank's engine must not complete the step, and so allow
  // the next post(), before everybody has been told.
  const std::uint64_t step = num_posted_.load();
  channel_.post(step);
  num_posted_.store(step + 1);
}

Progress BucketAllreduce::step() {
  if (num_posted_.load() <= current_ || !channel_.have_all_posted(current_)) {
    return Progress::pending;
  }
  if (!is_published_) {
    if (!reduce_some()) return Progress::advanced;
    if (!is_direct_) channel_.publish_reduced(current_);
    is_published_ = true;
  }
  const bool is_done = is_direct_ || channel_.have_all_reduced(current_);
  return is_done ? Progress::done : Progress::pending;
}

bool BucketAllreduce::reduce_some() {
  const Range slice =
      is_direct_ ? Range{0, count_} : slice_of(count_, dtype_, channel_.size(), channel_.rank());
  const std::size_t begin = slice.begin + num_reduced_;
  const std::size_t length = std::min(slice.end - begin, kBytesPerTurn / size_of(dtype_));
  const std::size_t offset = begin * size_of(dtype_);
  for (int member = 0; member < channel_.size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = channel_.window_of(member, current_) + offset;
  }
  std::byte* target = is_direct_ ? direct_result_.data() : channel_.window(current_);
  reducer_.reduce(target + offset, sources_.data(), sources_.size(), length);
  num_reduced_ += length;
  return num_reduced_ == slice.size();
}

void BucketAllreduce::complete() {
  // Before the completion: who sees it may post the next step at once.
  ++current_;
  num_reduced_ = 0;
  is_published_ = false;
  CollectiveOperation::complete();
}

void BucketAllreduce::copy_result(std::uint64_t step, std::size_t begin, std::size_t end,
                                  void* out) const {
  const std::size_t stride = size_of(dtype_);
  auto* target = static_cast<std::byte*>(out);
  if (is_direct_) {
    if (begin < end)
      std::memcpy(target, direct_result_.data() + begin * stride, (end - begin) * stride);
    return;
  }
  for (int member = 0; member < channel_.size(); ++member) {
    const Range slice = slice_of(count_, dtype_, channel_.size(), member);
    const std::size_t from = std::max(begin, slice.begin);
    const std::size_t to = std::min(end, slice.end);
    if (from >= to) continue;
    std::memcpy(target + (from - begin) * stride, channel_.window_of(member, step) + from * stride,
                (to - from) * stride);
  }
}

std::string BucketAllreduce::describe() const {
  return text("step ", current_, " of ", name_);
}

std::vector<int> BucketAllreduce::missing() const {
  if (num_posted_.load() <= current_) return {};
  return is_published_ ? channel_.missing_reductions(current_) : channel_.missing_posts(current_);
}

std::string BucketAllreduce::own_part() const {
  return "this rank itself: not all tensors of the bucket have been started";
}

}  // namespace tnt::comm
