#include "tnt/comm/collective/two_shot_bucket_allreduce.hpp"

#include <limits>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/transport/local/heap_segment.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

std::shared_ptr<DoubleBuffer> private_slots(std::size_t num_bytes) {
  const std::size_t slot_bytes = round_up(num_bytes, kCacheLineBytes);
  auto memory = std::make_shared<HeapSegment>(DoubleBuffer::kNumSlots * slot_bytes);
  return std::make_shared<DoubleBuffer>(std::move(memory), 0, slot_bytes,
                                        DoubleBuffer::Order::reuse);
}

}  // namespace

TwoShotBucketAllreduce::TwoShotBucketAllreduce(std::shared_ptr<AbortState> abort_state,
                                               std::shared_ptr<BucketSequencer> sequencer,
                                               std::size_t bucket, DType dtype, std::size_t count,
                                               std::vector<Range> large, std::string name)
    : BucketOperation(std::move(abort_state), std::move(name)),
      sequencer_(std::move(sequencer)),
      bucket_(bucket),
      dtype_(dtype),
      packed_(private_slots(count * size_of(dtype))),
      pipeline_(sequencer_->state()),
      blocks_(pipeline_, dtype, ReduceOp::sum, count),
      large_(std::move(large)),
      placed_(large_.size()) {
  has_second_round = true;
  num_blocks = blocks_.num_blocks();
  const auto add_run = [&](Range range, std::size_t place) {
    if (range.size() == 0) return;
    blocks_.runs().push_back({.range = range});
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

std::byte* TwoShotBucketAllreduce::input(std::uint64_t step) {
  return packed_->data_of(packed_->open(step));
}

const std::byte* TwoShotBucketAllreduce::result(std::uint64_t step) const {
  return packed_->data_of(packed_->slot_of(step));
}

std::shared_ptr<DoubleBuffer> TwoShotBucketAllreduce::try_lend(std::uint64_t step,
                                                               std::size_t& slot) {
  if (!packed_->try_lend(step)) return nullptr;
  slot = packed_->slot_of(step);
  return packed_;
}

void TwoShotBucketAllreduce::place(std::size_t place, InPlaceTensor tensor) {
  const bool is_alone = pipeline_.channel().size() == 1;
  if (is_alone && (tensor.in != tensor.out || tensor.scale != 1)) {
    pack_scaled(tensor.out, tensor.in, large_[place].size(), dtype_, tensor.scale);
  }
  placed_[place] = std::move(tensor);
}

void TwoShotBucketAllreduce::release(std::size_t place) {
  placed_[place] = {};
}

void TwoShotBucketAllreduce::announce(std::uint64_t step) {
  packed_->open(step);  // where all tensors are placed, nothing has been packed
  sequencer_->post(bucket_, step);
}

Progress TwoShotBucketAllreduce::do_advance() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    if (!sequencer_->is_turn(bucket_, current())) return Progress::pending;
    begin();
  }
  const bool has_moved = pipeline_.advance(*this);
  if (!pipeline_.is_done(*this)) return has_moved ? Progress::advanced : Progress::pending;
  pipeline_.end();
  sequencer_->end(bucket_);
  return Progress::done;
}

void TwoShotBucketAllreduce::begin() {
  has_begun_ = true;
  pipeline_.begin();
  sequencer_->begin(pipeline_);
  std::byte* packed = packed_->data_of(packed_->slot_of(current()));
  for (std::size_t i = 0; i < place_of_run_.size(); ++i) {
    Run& run = blocks_.runs()[i];
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

void TwoShotBucketAllreduce::copy_in(std::uint64_t index, std::byte*) {
  blocks_.copy_in(index, index);
}

bool TwoShotBucketAllreduce::reduce(std::uint64_t index) {
  blocks_.reduce(index, index);
  return true;
}

void TwoShotBucketAllreduce::copy_out(std::uint64_t index) {
  blocks_.copy_out(index, index);
}

void TwoShotBucketAllreduce::reset() {
  has_begun_ = false;
}

bool TwoShotBucketAllreduce::has_made_call(int member) const {
  return sequencer_->has_posted(member, bucket_, current());
}

std::vector<int> TwoShotBucketAllreduce::missing() const {
  if (awaits_this_rank()) return {};
  return has_begun_ ? pipeline_.missing() : sequencer_->missing(bucket_, current());
}

}  // namespace tnt::comm
