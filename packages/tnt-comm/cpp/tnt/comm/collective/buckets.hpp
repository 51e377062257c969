#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {

/// The order in which buckets use the slots of one ring, the same on all
/// members, although they may have packed their buckets in different orders.
///
/// The first member is the sequencer, which gives a sequence number to a bucket as soon as all
/// members have posted it. So no bucket waits for one that is not ready everywhere, and few slots,
/// which stay in the caches, serve many buckets.
///
/// Threads: one at a time for post() of a bucket; one for the rest, among all buckets.
class BucketSequencer {
 public:
  static MemoryNeeds memory_needs(const SlotLayout& layout, std::size_t num_buckets) {
    return {layout.num_bytes(), kNumCounters * num_buckets};
  }

  /// The ring lies in the segment, the notifications begin at `first`.
  BucketSequencer(std::shared_ptr<Segment> segment, std::shared_ptr<StagedStream> stream,
                  NotificationId first, std::size_t num_buckets)
      : segment_(std::move(segment)),
        stream_(std::move(stream)),
        first_(first),
        last_done_(num_buckets),
        last_given_(num_buckets) {}

  const std::shared_ptr<StagedStream>& stream() const { return stream_; }

  /// This rank has packed the bucket for the step.
  void post(std::size_t bucket, std::uint64_t step) {
    announce(counter(bucket, Counter::posted), step + 1);
  }

  bool has_posted(int member, std::size_t bucket, std::uint64_t step) const {
    return segment_->poll(member, counter(bucket, Counter::posted)) > step;
  }

  /// Whether the posted step of the bucket may use the ring now.
  bool may_begin(std::size_t bucket, std::uint64_t step) {
    // Only the sequencer has to look while another bucket is at work.
    if (current_ != nullptr && (!is_sequencer() || has_number(bucket))) return false;
    return number_of(bucket, step) == num_done_ + 1;
  }

  /// The bucket that may begin does so, and is done.
  void begin(const StagingPipeline& pipeline) { current_ = &pipeline; }
  void end(std::size_t bucket) {
    last_done_[bucket] = ++num_done_;
    current_ = nullptr;
  }
  /// A bucket has failed, perhaps in its turn. It may be gone before the others.
  void abandon(const StagingPipeline& pipeline) {
    if (current_ == &pipeline) current_ = nullptr;
  }

  /// Members whose next act the posted step of the bucket waits for.
  std::vector<int> missing(std::size_t bucket, std::uint64_t step) const {
    std::vector<int> members = ranks_where(
        segment_->size(), [&](int member) { return lacks_post_of(member, bucket, step); });
    if (!members.empty()) return members;
    if (current_ != nullptr) return current_->missing();
    if (!is_sequencer() && !has_number(bucket)) members.push_back(kSequencerMember);
    return members;
  }

 private:
  static constexpr int kSequencerMember = 0;

  enum class Counter : std::size_t { posted, number };  // of each bucket
  static constexpr std::size_t kNumCounters = 2;

  NotificationId counter(std::size_t bucket, Counter which) const {
    return first_ + kNumCounters * bucket + static_cast<std::size_t>(which);
  }

  bool is_sequencer() const { return segment_->rank() == kSequencerMember; }
  bool has_number(std::size_t bucket) const { return last_given_[bucket] != last_done_[bucket]; }

  bool lacks_post_of(int member, std::size_t bucket, std::uint64_t step) const {
    return member != segment_->rank() && !has_posted(member, bucket, step);
  }

  bool have_all_posted(std::size_t bucket, std::uint64_t step) const {
    for (int member = 0; member < segment_->size(); ++member) {
      if (lacks_post_of(member, bucket, step)) return false;
    }
    return true;
  }

  // 0 if it has none yet.
  std::uint64_t number_of(std::size_t bucket, std::uint64_t step) {
    std::uint64_t& given = last_given_[bucket];
    if (!is_sequencer()) {
      given = segment_->poll(kSequencerMember, counter(bucket, Counter::number));
    } else if (!has_number(bucket) && have_all_posted(bucket, step)) {
      given = ++num_given_;
      announce(counter(bucket, Counter::number), given);
    }
    return has_number(bucket) ? given : 0;
  }

  void announce(NotificationId id, std::uint64_t value) {
    // Starting with the next rank spreads the load when all announce at once.
    for (int distance = 1; distance < segment_->size(); ++distance) {
      segment_->notify((segment_->rank() + distance) % segment_->size(), id, value);
    }
  }

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<StagedStream> stream_;
  NotificationId first_;
  // By bucket, its last sequence number that is done, and that it was given; the first is 1.
  std::vector<std::uint64_t> last_done_;
  std::vector<std::uint64_t> last_given_;
  std::uint64_t num_done_ = 0;
  std::uint64_t num_given_ = 0;
  const StagingPipeline* current_ = nullptr;
};

/// A bucket of ranks that can read each other's memory: what starts its allreduce in every step.
class StagedBucketOperation : public HostBucket {
 protected:
  /// `work` belongs to the subclass.
  StagedBucketOperation(std::shared_ptr<StagedStream> stream, StagedWork& work, std::string name)
      : HostBucket(stream->context.abort_state, std::move(name)),
        pipeline_(std::move(stream)),
        work_(work) {}

  StagingPipeline& pipeline() { return pipeline_; }
  const StagingPipeline& pipeline() const { return pipeline_; }

  Progress advance_step() final {
    const Progress progress = pipeline_.advance(work_, [] { return true; });
    if (progress == Progress::done) end();
    return progress;
  }
  std::vector<int> missing() const final {
    if (awaits_this_rank()) return {};
    return has_begun() ? pipeline_.missing() : missing_for_begin();
  }

  virtual void end() {}
  /// Members whose next act the posted step waits for before it can begin.
  virtual std::vector<int> missing_for_begin() const { return {}; }

 private:
  StagingPipeline pipeline_;
  StagedWork& work_;
};

/// OneShotAllreduce of a small bucket, which is packed into its slot of a ring of its own: of
/// depth 1, so that each slot serves every other step. Its sum is private.
class OneShotBucket final : public StagedBucketOperation {
 public:
  static SlotLayout layout(const BucketSpec& spec) {
    return {.slot_bytes = round_up(spec.num_bytes(), kCacheLineBytes), .depth = 1};
  }

  OneShotBucket(std::shared_ptr<StagedStream> stream, const BucketSpec& spec)
      : StagedBucketOperation(std::move(stream), work_, spec.name),
        result_(spec.num_bytes()),
        work_(pipeline(), {.dtype = spec.dtype, .op = ReduceOp::sum, .count = spec.count},
              {.out = result_.data()}) {}

  std::byte* input(std::uint64_t step) override { return pipeline().ring().slot(step); }
  const std::byte* result(std::uint64_t) const override { return result_.data(); }

 protected:
  void announce(std::uint64_t step) override { pipeline().stream().ring.post(step); }
  bool try_begin() override {
    pipeline().begin(1);
    return true;
  }

 private:
  std::vector<std::byte> result_;
  OneShotAllreduce work_;
};

/// TwoShotAllreduce of a large bucket: it goes block by block through slots that stay
/// in the caches and that it shares with other buckets, see BucketSequencer.
///
/// So its tensors need not be in memory that others can reach. Large ones stay where they are and
/// are summed there; small ones, and those whose owner wants them back at once, are packed into
/// private memory, of which nothing is taken that is not used.
class TwoShotBucket final : public StagedBucketOperation {
 public:
  /// The `bucket`-th of those that share the sequencer.
  TwoShotBucket(std::shared_ptr<BucketSequencer> sequencer, std::size_t bucket,
                const BucketSpec& spec)
      : StagedBucketOperation(sequencer->stream(), work_, spec.name),
        sequencer_(std::move(sequencer)),
        bucket_(bucket),
        dtype_(spec.dtype),
        packed_(private_slots(spec.num_bytes())),
        work_(pipeline(), dtype_, ReduceOp::sum, spec.count),
        large_(spec.large),
        in_place_(large_.size()) {
    std::size_t end = 0;
    for (std::size_t index = 0; index < large_.size(); ++index) {
      add_run({end, large_[index].begin}, {});
      add_run(large_[index], index);
      end = large_[index].end;
    }
    add_run({end, spec.count}, {});
  }

  std::byte* input(std::uint64_t step) override { return packed_->data_of(packed_->open(step)); }
  const std::byte* result(std::uint64_t step) const override {
    return packed_->data_of(packed_->slot_of(step));
  }
  HostMemory memory() const override { return packed_->unlent_memory(); }
  bool may_be_in_place(std::size_t /*index*/) const override { return true; }
  void sum_in_place(std::size_t index, InPlaceTensor tensor) override {
    const bool is_alone = pipeline().ring().size() == 1;
    if (is_alone && (tensor.in != tensor.out || tensor.scale != 1)) {
      pack_scaled(tensor.out, tensor.in, large_[index].size(), dtype_, tensor.scale);
    }
    in_place_[index] = std::move(tensor);
  }
  void release(std::size_t index) override { in_place_[index] = {}; }
  void fail(const Error& error) override {
    sequencer_->abandon(pipeline());
    StagedBucketOperation::fail(error);
  }

 protected:
  std::shared_ptr<DoubleBuffer> lendable() const override { return packed_; }
  void announce(std::uint64_t step) override {
    packed_->open(step);  // where all tensors are summed in place, nothing has been packed
    sequencer_->post(bucket_, step);
  }
  bool try_begin() override {
    if (!sequencer_->may_begin(bucket_, current())) return false;
    pipeline().begin();
    sequencer_->begin(pipeline());
    std::byte* packed = packed_->data_of(packed_->slot_of(current()));
    for (std::size_t i = 0; i < large_of_run_.size(); ++i) {
      Run& run = work_.runs()[i];
      const std::optional<std::size_t> large = large_of_run_[i];
      if (large && in_place_[*large].out != nullptr) {
        const InPlaceTensor& tensor = in_place_[*large];
        run = {run.range, tensor.in, tensor.out, tensor.scale};
      } else {
        std::byte* const begin = packed + run.range.begin * size_of(dtype_);
        run = {run.range, begin, begin, 1};
      }
    }
    return true;
  }
  void end() override { sequencer_->end(bucket_); }
  std::vector<int> missing_for_begin() const override {
    return sequencer_->missing(bucket_, current());
  }
  bool has_made_call(int member) const override {
    return sequencer_->has_posted(member, bucket_, current());
  }

 private:
  static std::shared_ptr<DoubleBuffer> private_slots(std::size_t num_bytes) {
    const std::size_t slot_bytes = round_up(num_bytes, kCacheLineBytes);
    auto memory = std::make_shared<HeapSegment>(DoubleBuffer::kNumSlots * slot_bytes);
    return std::make_shared<DoubleBuffer>(std::move(memory), 0, slot_bytes);
  }

  void add_run(Range range, std::optional<std::size_t> large) {
    if (range.size() == 0) return;
    work_.runs().push_back({.range = range});
    large_of_run_.push_back(large);
  }

  std::shared_ptr<BucketSequencer> sequencer_;
  std::size_t bucket_;
  DType dtype_;
  std::shared_ptr<DoubleBuffer> packed_;
  TwoShotAllreduce work_;
  std::vector<Range> large_;
  std::vector<InPlaceTensor> in_place_;  // of the step at hand; without `out`: it is packed
  std::vector<std::optional<std::size_t>> large_of_run_;  // none for runs of packed tensors
};

}  // namespace tnt::comm
