#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

/// Allreduce of small messages among ranks that can read each other's memory: every rank puts
/// its array into its slot and reduces all slots for itself.
///
/// The array is private and copied in, or has been packed in the slot (the persistent one).
/// One block, one round; n times the message is read.
class OneShotAllreduce final : public StagedWork {
 public:
  /// `in` is not looked at if the first block is posted already.
  OneShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                   const CallArrays& arrays)
      : StagedWork(pipeline),
        count_(descriptor.count),
        num_bytes_(descriptor.num_bytes()),
        in_(static_cast<const std::byte*>(arrays.in)),
        out_(static_cast<std::byte*>(arrays.out)),
        sources_(static_cast<std::size_t>(ring().size())),
        reducer_(descriptor.dtype, descriptor.op, tree()) {}

  void copy_in(std::uint64_t index) override {
    if (num_bytes_ > 0) std::memcpy(pipeline().slot_of(ring().rank(), index), in_, num_bytes_);
  }
  void copy_out(std::uint64_t index) override {
    for (int member = 0; member < ring().size(); ++member) {
      at(sources_, member) = pipeline().slot_of(member, index);
    }
    reducer_.reduce(out_, sources_.data(), sources_.size(), count_);
  }

 private:
  std::size_t count_;
  std::size_t num_bytes_;
  const std::byte* in_;
  std::byte* out_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

/// Some elements of a vector, and where they lie in this rank's memory.
struct Run {
  Range range;                    ///< of the vector's elements
  const std::byte* in = nullptr;  ///< the first of them
  std::byte* out = nullptr;       ///< where their sums go; may be `in`
  double scale = 1;               ///< what is summed is scale * in
};

/// Allreduce of large messages among ranks that can read each other's memory: each reduces a part.
///
/// *Private memory*, where the elements may lie in several places: in blocks as large as the pair
/// slots of a slot (see SlotRing). Every rank copies into pair slots what the others will reduce
/// (all of a block but its own chunk), reduces its chunk straight out of its own memory and the
/// others' pair slots into the same places, and copies the other chunks of the
/// result from its pair slots. Slots stay in the caches (see SlotRing for why it is cheap to write
/// to them), so main memory sees the vector and the result only. Results can go past the caches.
///
/// Blocks: ceil(bytes / (n pair slots)), two rounds each. Memory traffic per rank and byte of the
/// vector: (n-1)/n copied in, n/n read and n/n written by the reduction, (n-1)/n copied out.
///
/// *Arrays in shared regions*, if those of all members are: every rank reduces
/// one chunk of the whole message out of all arrays and writes it to all
/// arrays. One block; n/n read and n/n written, nothing copied.
///
/// Which of the two it is, all ranks see from what all say at the first block, where a rank with
/// shared arrays posts an empty slot. If there are some with private arrays as well, the first
/// block counts for nothing, and what it should have brought comes once more as the last one.
class TwoShotAllreduce final : public StagedWork {
 public:
  TwoShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                   const CallArrays& arrays)
      : TwoShotAllreduce(pipeline, descriptor.dtype, descriptor.op, descriptor.count) {
    const std::size_t num_bytes = descriptor.num_bytes();
    runs_.push_back({.range = {0, count_},
                     .in = static_cast<const std::byte*>(arrays.in),
                     .out = static_cast<std::byte*>(arrays.out)});
    is_streamed_ = is_beyond_caches(num_bytes, ring().size());
    const SharedRegions* const regions = pipeline.stream().context.regions.get();
    if (ring().size() == 1 || regions == nullptr) return;
    const auto in = regions->find(arrays.in, num_bytes);
    const auto out = in ? regions->find(arrays.out, num_bytes) : std::nullopt;
    if (!out) return;
    shared_offsets = {*in, *out};
    num_blocks = 1;
  }
  /// The persistent one, of private memory that runs() say.
  TwoShotAllreduce(const StagingPipeline& pipeline, DType dtype, ReduceOp op, std::size_t count)
      : StagedWork(pipeline),
        dtype_(dtype),
        stride_(size_of(dtype)),
        count_(count),
        sources_(static_cast<std::size_t>(ring().size())),
        reducer_(dtype, op, tree()) {
    has_second_round = true;
    block_length_ = ring().pair_slot_bytes() / stride_ * sources_.size();
    num_copied_blocks_ = std::max<std::size_t>(1, (count + block_length_ - 1) / block_length_);
    num_blocks = num_copied_blocks_;
  }

  /// Where the elements lie, in ascending order. Elements that no run holds are
  /// not summed. Pointers and scales may be changed between two passes.
  std::vector<Run>& runs() { return runs_; }

  void on_match() override {
    int num_shared = 0;
    for (int member = 0; member < ring().size(); ++member) {
      if (shared_offsets_of(member)) ++num_shared;
    }
    if (num_shared == 0) return;
    is_mixed_ = num_shared < ring().size();
    if (is_mixed_) {
      num_blocks = num_copied_blocks_ + 1;
      return;
    }
    const SharedRegions& regions = *pipeline().stream().context.regions;
    for (int member = 0; member < ring().size(); ++member) {
      const SharedOffsets at = *shared_offsets_of(member);
      Arrays& arrays = shared_.emplace_back();
      arrays.in_segment = regions.segment_of(at.in.region);
      arrays.out_segment = regions.segment_of(at.out.region);
      arrays.in = arrays.in_segment->peer(member) + at.in.offset;
      arrays.out = arrays.out_segment->writable_peer(member) + at.out.offset;
    }
  }

  void copy_in(std::uint64_t index) override {
    if (index == 0 && shared_offsets) return;  // nothing is in the slot
    visit_others(index, [&](int member, const Extent& extent) {
      pack_scaled(pipeline().pair_slot(ring().rank(), member, index) + extent.in_pair_slot,
                  extent.in, extent.count, dtype_, extent.scale);
    });
  }

  bool reduce(std::uint64_t index) override {
    if (!shared_.empty()) return reduce_shared();
    if (is_void(index)) return true;
    const int rank = ring().rank();
    visit(index, rank, [&](const Extent& extent) {
      const std::byte* own = extent.in;
      if (extent.scale != 1) {
        pack_scaled(extent.out, extent.in, extent.count, dtype_, extent.scale);
        own = extent.out;
      }
      targets_.assign(1, extent.out);
      for (int member = 0; member < ring().size(); ++member) {
        std::byte* pair_slot = pipeline().pair_slot(member, rank, index) + extent.in_pair_slot;
        at(sources_, member) = member == rank ? own : pair_slot;
        if (member != rank) targets_.push_back(pair_slot);
      }
      reducer_.reduce_to(targets_, sources_.data(), sources_.size(), extent.count);
    });
    return true;
  }

  void copy_out(std::uint64_t index) override {
    if (!shared_.empty() || is_void(index)) return;
    const auto copy =
        is_streamed_ ? stream_copy : [](void* to, const void* from, std::size_t bytes) {
          std::memcpy(to, from, bytes);
        };
    visit_others(index, [&](int member, const Extent& extent) {
      copy(extent.out, pipeline().pair_slot(ring().rank(), member, index) + extent.in_pair_slot,
           extent.count * stride_);
    });
  }

 private:
  struct Extent {  // of a chunk, in one run
    const std::byte* in;
    std::byte* out;
    double scale;
    std::size_t in_pair_slot;  // offset in bytes
    std::size_t count;         // elements
  };

  struct Arrays {  // of one member, in a shared region
    const std::byte* in;
    std::byte* out;
    std::shared_ptr<Segment> in_segment;  // whoever drops a region after an error
    std::shared_ptr<Segment> out_segment;
  };

  bool is_void(std::uint64_t index) const { return is_mixed_ && index == 0; }

  bool reduce_shared() {
    // What one call does at most, so that other operations get their turn.
    constexpr std::size_t kBytesPerTurn = 512 * 1024;
    const Range own = chunk_of(count_, dtype_, ring().size(), ring().rank());
    const std::size_t begin = own.begin + num_reduced_;
    const std::size_t length = std::min(own.end - begin, kBytesPerTurn / stride_);
    if (length > 0) {
      targets_.clear();
      for (std::size_t member = 0; member < shared_.size(); ++member) {
        sources_[member] = shared_[member].in + begin * stride_;
        targets_.push_back(shared_[member].out + begin * stride_);
      }
      reducer_.reduce_to(targets_, sources_.data(), sources_.size(), length);
    }
    num_reduced_ += length;
    return num_reduced_ == own.size();
  }

  std::optional<SharedOffsets> shared_offsets_of(int member) const {
    return ring().shared_offsets_of(member, pipeline().base());
  }

  Range elements_of(std::uint64_t index) const {
    return block_of(index % num_copied_blocks_, block_length_, count_);  // see is_mixed_
  }

  // Calls function(Extent) for what runs hold of a member's chunk of the block.
  void visit(std::uint64_t index, int member, const auto& function) const {
    const Range whole = elements_of(index);
    const Range chunk = chunk_of(whole.size(), dtype_, ring().size(), member);
    for (const Run& run : runs_) {
      const std::size_t begin = std::max(run.range.begin, whole.begin + chunk.begin);
      const std::size_t end = std::min(run.range.end, whole.begin + chunk.end);
      if (begin >= end) continue;
      const std::size_t offset = (begin - run.range.begin) * stride_;
      function(Extent{run.in + offset, run.out + offset, run.scale,
                      (begin - whole.begin - chunk.begin) * stride_, end - begin});
    }
  }

  void visit_others(std::uint64_t index, const auto& function) const {
    for (int member = 0; member < ring().size(); ++member) {
      if (member == ring().rank()) continue;
      visit(index, member, [&](const Extent& extent) { function(member, extent); });
    }
  }

  DType dtype_;
  std::size_t stride_;
  std::size_t count_;
  std::size_t block_length_;  // elements
  std::uint64_t num_copied_blocks_;
  std::vector<Run> runs_;
  bool is_streamed_ = false;  // results are written past the caches
  bool is_mixed_ = false;
  std::vector<Arrays> shared_;  // by member, if all are
  std::size_t num_reduced_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  TreeReducer reducer_;
};

/// The latency path of small allreduces: what OneShotAllreduce does, by a caller
/// who holds the stream, without an operation object and without allocating
/// anything. One object serves all calls of a ring, one after the other.
///
/// If the peers do not come soon, or call something else, a OneShotAllreduce
/// takes the call over where it is; see StagedOperation::take_over().
class QuickAllreduce {
 public:
  explicit QuickAllreduce(std::shared_ptr<StagedStream> stream)
      : stream_(std::move(stream)),
        limit_bytes_(one_shot_limit_bytes(stream_->ring.size())),
        sources_(static_cast<std::size_t>(stream_->ring.size())),
        reducer_(DType::uint8, ReduceOp::sum, stream_->context.tree) {}

  /// Whether messages of this size are OneShotAllreduce's.
  bool takes(std::size_t num_bytes) const { return num_bytes <= limit_bytes_; }

  /// Copies the input into the slot and posts it. Wakes nobody.
  void begin(const void* in, void* out, const Descriptor& descriptor) {
    SlotRing& ring = stream_->ring;
    const std::uint64_t block = stream_->next_block;
    descriptor_ = descriptor;
    descriptor_.call_index = stream_->num_calls++;
    in_ = static_cast<const std::byte*>(in);
    out_ = static_cast<std::byte*>(out);
    num_arrived_ = 0;
    const std::size_t num_bytes = descriptor.num_bytes();
    if (num_bytes > 0) std::memcpy(ring.slot(block), in_, num_bytes);
    ring.describe(block, descriptor_);
    ring.post_quietly(block);
  }

  /// True when all have posted the same call, and the result is in `out`.
  bool try_finish() {
    const SlotRing& ring = stream_->ring;
    const std::uint64_t block = stream_->next_block;
    for (; num_arrived_ < ring.size(); ++num_arrived_) {
      if (num_arrived_ == ring.rank()) continue;
      if (!ring.has_posted(num_arrived_, block)) return false;
      // Then nothing is quick any more: whoever takes over says what differs.
      if (!descriptor_.matches(ring.descriptor_of(num_arrived_, block))) return false;
    }
    for (int member = 0; member < ring.size(); ++member) {
      at(sources_, member) = member == ring.rank() ? in_ : ring.slot_of(member, block);
    }
    reducer_.become(descriptor_.dtype, descriptor_.op);
    reducer_.reduce(out_, sources_.data(), sources_.size(), descriptor_.count);
    stream_->next_block = block + 1;
    return true;
  }

  /// To be called at the end, or if there is none soon: for ranks that sleep.
  void wake_others() { stream_->ring.wake_others(); }

  const Descriptor& descriptor() const { return descriptor_; }

 private:
  std::shared_ptr<StagedStream> stream_;
  std::size_t limit_bytes_;
  Descriptor descriptor_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  int num_arrived_ = 0;  // the members up to this one have posted
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
