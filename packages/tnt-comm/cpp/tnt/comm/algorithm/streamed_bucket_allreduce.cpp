#include "tnt/comm/algorithm/streamed_bucket_allreduce.hpp"

#include <limits>
#include <utility>

#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/transport/heap_segment.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

std::shared_ptr<WindowPair> private_windows(std::size_t num_bytes) {
  constexpr std::size_t kCacheLine = 64;
  const std::size_t window_bytes = round_up(num_bytes, kCacheLine);
  auto memory = std::make_shared<HeapSegment>(WindowPair::kNumWindows * window_bytes);
  return std::make_shared<WindowPair>(std::move(memory), 0, window_bytes, WindowPair::Order::reuse);
}

}  // namespace

StreamedBucketAllreduce::StreamedBucketAllreduce(std::shared_ptr<Health> health,
                                                 std::shared_ptr<BucketTurns> turns,
                                                 std::size_t bucket, DType dtype, std::size_t count,
                                                 std::vector<Range> large, std::string name)
    : BucketOperation(std::move(health), std::move(name)),
      turns_(std::move(turns)),
      bucket_(bucket),
      dtype_(dtype),
      packed_(private_windows(count * size_of(dtype))),
      pipeline_(turns_->state()),
      pieces_(pipeline_, dtype, ReduceOp::sum, count),
      large_(std::move(large)),
      placed_(large_.size()) {
  has_second_round = true;
  num_steps = pieces_.num_pieces();
  const auto add_run = [&](Range range, std::size_t place) {
    if (range.size() == 0) return;
    pieces_.runs().push_back({.range = range});
    place_of_run_.push_back(place);
  };
  std::size_t end = 0;
  for (std::size_t place = 0; place < large_.size(); ++place) {
    add_run({end, large_[place].begin}, kNoPlace);
    add_run(large_[place], place);
    end = large_[place].end;
  }
  add_run({end, count}, kNoPlace);
}

std::byte* StreamedBucketAllreduce::input(std::uint64_t step) {
  return packed_->data_of(packed_->open(step));
}

const std::byte* StreamedBucketAllreduce::result(std::uint64_t step) const {
  return packed_->data_of(packed_->window_of(step));
}

std::shared_ptr<WindowPair> StreamedBucketAllreduce::try_lend(std::uint64_t step,
                                                              std::size_t& window) {
  if (!packed_->try_lend(step)) return nullptr;
  window = packed_->window_of(step);
  return packed_;
}

void StreamedBucketAllreduce::place(std::size_t place, PlacedTensor tensor) {
  const bool is_alone = pipeline_.channel().size() == 1;
  if (is_alone && (tensor.in != tensor.out || tensor.scale != 1)) {
    pack_scaled(tensor.out, tensor.in, large_[place].size(), dtype_, tensor.scale);
  }
  placed_[place] = std::move(tensor);
}

void StreamedBucketAllreduce::release(std::size_t place) {
  placed_[place] = {};
}

void StreamedBucketAllreduce::announce(std::uint64_t step) {
  packed_->open(step);  // where all tensors are placed, nothing has been packed
  turns_->post(bucket_, step);
}

Progress StreamedBucketAllreduce::step() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    if (!turns_->is_turn(bucket_, current())) return Progress::pending;
    begin();
  }
  const bool has_moved = pipeline_.advance(*this);
  if (!pipeline_.is_done(*this)) return has_moved ? Progress::advanced : Progress::pending;
  pipeline_.end();
  turns_->end(bucket_);
  return Progress::done;
}

void StreamedBucketAllreduce::begin() {
  has_begun_ = true;
  pipeline_.begin();
  turns_->begin(pipeline_);
  std::byte* packed = packed_->data_of(packed_->window_of(current()));
  for (std::size_t i = 0; i < place_of_run_.size(); ++i) {
    Run& run = pieces_.runs()[i];
    run.out = packed + run.range.begin * size_of(dtype_);
    run.in = run.out;
    run.scale = 1;
    const std::size_t place = place_of_run_[i];
    if (place == kNoPlace || placed_[place].out == nullptr) continue;
    run.in = placed_[place].in;
    run.out = placed_[place].out;
    run.scale = placed_[place].scale;
  }
}

void StreamedBucketAllreduce::copy_in(std::uint64_t index, std::byte*) {
  pieces_.copy_in(index, index);
}

bool StreamedBucketAllreduce::reduce(std::uint64_t index) {
  pieces_.reduce(index, index);
  return true;
}

void StreamedBucketAllreduce::copy_out(std::uint64_t index) {
  pieces_.copy_out(index, index);
}

void StreamedBucketAllreduce::reset() {
  has_begun_ = false;
}

bool StreamedBucketAllreduce::has_made_call(int member) const {
  return turns_->has_posted(member, bucket_, current());
}

std::vector<int> StreamedBucketAllreduce::missing() const {
  if (awaits_this_rank()) return {};
  return has_begun_ ? pipeline_.missing() : turns_->missing(bucket_, current());
}

}  // namespace tnt::comm
