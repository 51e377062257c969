#include "tnt/comm/collective/buckets.hpp"

#include <limits>
#include <utility>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

std::shared_ptr<DoubleBuffer> private_slots(std::size_t num_bytes) {
  const std::size_t slot_bytes = round_up(num_bytes, kCacheLineBytes);
  auto memory = std::make_shared<HeapSegment>(DoubleBuffer::kNumSlots * slot_bytes);
  return std::make_shared<DoubleBuffer>(std::move(memory), 0, slot_bytes);
}

}  // namespace

Progress StagedBucketOperation::advance_step() {
  bool has_moved = pipeline_.try_post(work_);
  has_moved |= pipeline_.advance(work_);
  if (!pipeline_.is_done(work_)) return has_moved ? Progress::advanced : Progress::pending;
  end();
  return Progress::done;
}

std::vector<int> StagedBucketOperation::missing() const {
  if (awaits_this_rank()) return {};
  return has_begun() ? pipeline_.missing() : missing_for_begin();
}

ChannelLayout OneShotBucket::layout(const BucketSpec& spec) {
  return {.slot_bytes = round_up(spec.num_bytes(), kCacheLineBytes), .depth = 1};
}

OneShotBucket::OneShotBucket(std::shared_ptr<StagedStream> stream, const BucketSpec& spec)
    : StagedBucketOperation(std::move(stream), work_, spec.name),
      result_(spec.num_bytes()),
      work_(pipeline(), {.dtype = spec.dtype, .op = ReduceOp::sum, .count = spec.count},
            {.out = result_.data()}) {}

bool OneShotBucket::try_begin() {
  pipeline().begin(1);
  return true;
}

TwoShotBucket::TwoShotBucket(std::shared_ptr<BucketSequencer> sequencer, std::size_t bucket,
                             const BucketSpec& spec)
    : StagedBucketOperation(sequencer->stream(), work_, spec.name),
      sequencer_(std::move(sequencer)),
      bucket_(bucket),
      dtype_(spec.dtype),
      packed_(private_slots(spec.num_bytes())),
      work_(pipeline(), dtype_, ReduceOp::sum, spec.count),
      large_(spec.large),
      placed_(large_.size()) {
  const auto add_run = [&](Range range, std::size_t place) {
    if (range.size() == 0) return;
    work_.runs().push_back({.range = range});
    place_of_run_.push_back(place);
  };
  std::size_t end = 0;
  for (std::size_t place = 0; place < large_.size(); ++place) {
    add_run({end, large_[place].begin}, kNoPlace);
    add_run(large_[place], place);
    end = large_[place].end;
  }
  add_run({end, spec.count}, kNoPlace);
}

void TwoShotBucket::place(std::size_t place, InPlaceTensor tensor) {
  const bool is_alone = pipeline().channel().size() == 1;
  if (is_alone && (tensor.in != tensor.out || tensor.scale != 1)) {
    pack_scaled(tensor.out, tensor.in, large_[place].size(), dtype_, tensor.scale);
  }
  placed_[place] = std::move(tensor);
}

void TwoShotBucket::announce(std::uint64_t step) {
  packed_->open(step);  // where all tensors are placed, nothing has been packed
  sequencer_->post(bucket_, step);
}

bool TwoShotBucket::try_begin() {
  if (!sequencer_->is_turn(bucket_, current())) return false;
  pipeline().begin();
  sequencer_->begin(pipeline());
  std::byte* packed = packed_->data_of(packed_->slot_of(current()));
  for (std::size_t i = 0; i < place_of_run_.size(); ++i) {
    Run& run = work_.runs()[i];
    run.out = packed + run.range.begin * size_of(dtype_);
    run.in = run.out;
    run.scale = 1;
    const std::size_t place = place_of_run_[i];
    if (place == kNoPlace || placed_[place].out == nullptr) continue;
    run.in = placed_[place].in;
    run.out = placed_[place].out;
    run.scale = placed_[place].scale;
  }
  return true;
}

void TwoShotBucket::end() {
  StagedBucketOperation::end();
  sequencer_->end(bucket_);
}

bool TwoShotBucket::has_made_call(int member) const {
  return sequencer_->has_posted(member, bucket_, current());
}

std::vector<int> TwoShotBucket::missing_for_begin() const {
  return sequencer_->missing(bucket_, current());
}

}  // namespace tnt::comm
