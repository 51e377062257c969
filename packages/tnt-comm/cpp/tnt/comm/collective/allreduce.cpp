#include "tnt/comm/collective/allreduce.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/kernel/pack.hpp"

namespace tnt::comm {

OneShotAllreduce::OneShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                                   const CallArrays& arrays)
    : StagedWork(pipeline),
      count_(descriptor.count),
      num_bytes_(descriptor.num_bytes()),
      in_(static_cast<const std::byte*>(arrays.in)),
      out_(static_cast<std::byte*>(arrays.out)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {}

void OneShotAllreduce::copy_in(std::uint64_t index) {
  if (num_bytes_ > 0) std::memcpy(pipeline().slot_of(channel().rank(), index), in_, num_bytes_);
}

void OneShotAllreduce::copy_out(std::uint64_t index) {
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = pipeline().slot_of(member, index);
  }
  reducer_.reduce(out_, sources_.data(), sources_.size(), count_);
}

struct TwoShotAllreduce::Extent {
  const std::byte* in;
  std::byte* out;
  double scale;
  std::size_t in_pair_slot;  // offset in bytes
  std::size_t count;         // elements
};

TwoShotAllreduce::TwoShotAllreduce(const StagingPipeline& pipeline, DType dtype, ReduceOp op,
                                   std::size_t count)
    : StagedWork(pipeline),
      dtype_(dtype),
      stride_(size_of(dtype)),
      count_(count),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(dtype, op, sources_.size()) {
  has_second_round = true;
  block_length_ = channel().pair_slot_bytes() / stride_ * sources_.size();
  num_copied_blocks_ = std::max<std::size_t>(1, (count + block_length_ - 1) / block_length_);
  num_blocks = num_copied_blocks_;
}

TwoShotAllreduce::TwoShotAllreduce(const StagingPipeline& pipeline, const Descriptor& descriptor,
                                   const CallArrays& arrays)
    : TwoShotAllreduce(pipeline, descriptor.dtype, descriptor.op, descriptor.count) {
  const std::size_t num_bytes = descriptor.num_bytes();
  runs_.push_back({.range = {0, count_},
                   .in = static_cast<const std::byte*>(arrays.in),
                   .out = static_cast<std::byte*>(arrays.out)});
  is_streamed_ = is_beyond_caches(num_bytes, channel().size());
  const SharedRegions* const regions = pipeline.stream().context.regions.get();
  SharedRegions::Place in_place{};
  SharedRegions::Place out_place{};
  if (channel().size() > 1 && regions != nullptr && regions->find(arrays.in, num_bytes, in_place) &&
      regions->find(arrays.out, num_bytes, out_place)) {
    places = {in_place.region, in_place.offset, out_place.region, out_place.offset};
    num_blocks = 1;
  }
}

void TwoShotAllreduce::on_match() {
  int num_shared = 0;
  for (int member = 0; member < channel().size(); ++member) {
    if (channel().posting_of(member, pipeline().base()).is_shared) ++num_shared;
  }
  if (num_shared == 0) return;
  is_mixed_ = num_shared < channel().size();
  if (is_mixed_) {
    num_blocks = num_copied_blocks_ + 1;
    return;
  }
  for (int member = 0; member < channel().size(); ++member) shared_.push_back(arrays_of(member));
}

TwoShotAllreduce::Arrays TwoShotAllreduce::arrays_of(int member) const {
  const SharedOffsets at = channel().posting_of(member, pipeline().base()).places;
  const SharedRegions& regions = *pipeline().stream().context.regions;
  Arrays arrays;
  arrays.in_segment = regions.segment_of(at.in_region);
  arrays.out_segment = regions.segment_of(at.out_region);
  arrays.in = arrays.in_segment->peer(member) + at.in_offset;
  arrays.out = arrays.out_segment->writable_peer(member) + at.out_offset;
  return arrays;
}

Range TwoShotAllreduce::elements_of(std::uint64_t index) const {
  const std::size_t begin = index % num_copied_blocks_ * block_length_;  // see is_mixed_
  return {begin, std::min<std::size_t>(begin + block_length_, count_)};
}

// Calls function(Extent) for what runs hold of a member's chunk of the block.
template <typename Function>
void TwoShotAllreduce::visit(std::uint64_t index, int member, const Function& function) const {
  const Range whole = elements_of(index);
  const Range chunk = chunk_of(whole.size(), dtype_, channel().size(), member);
  for (const Run& run : runs_) {
    const std::size_t begin = std::max(run.range.begin, whole.begin + chunk.begin);
    const std::size_t end = std::min(run.range.end, whole.begin + chunk.end);
    if (begin >= end) continue;
    const std::size_t offset = (begin - run.range.begin) * stride_;
    function(Extent{run.in + offset, run.out + offset, run.scale,
                    (begin - whole.begin - chunk.begin) * stride_, end - begin});
  }
}

template <typename Function>
void TwoShotAllreduce::visit_others(std::uint64_t index, const Function& function) const {
  for (int member = 0; member < channel().size(); ++member) {
    if (member == channel().rank()) continue;
    visit(index, member, [&](const Extent& extent) { function(member, extent); });
  }
}

void TwoShotAllreduce::copy_in(std::uint64_t index) {
  if (index == 0 && places) return;  // nothing is in the slot
  visit_others(index, [&](int member, const Extent& extent) {
    pack_scaled(pipeline().pair_slot(channel().rank(), member, index) + extent.in_pair_slot,
                extent.in, extent.count, dtype_, extent.scale);
  });
}

bool TwoShotAllreduce::reduce(std::uint64_t index) {
  if (!shared_.empty()) return reduce_shared();
  if (is_void(index)) return true;
  const int rank = channel().rank();
  visit(index, rank, [&](const Extent& extent) {
    const std::byte* own = extent.in;
    if (extent.scale != 1) {
      pack_scaled(extent.out, extent.in, extent.count, dtype_, extent.scale);
      own = extent.out;
    }
    targets_.assign(1, extent.out);
    for (int member = 0; member < channel().size(); ++member) {
      std::byte* pair_slot = pipeline().pair_slot(member, rank, index) + extent.in_pair_slot;
      sources_[static_cast<std::size_t>(member)] = member == rank ? own : pair_slot;
      if (member != rank) targets_.push_back(pair_slot);
    }
    reducer_.reduce_to(targets_, sources_.data(), sources_.size(), extent.count);
  });
  return true;
}

bool TwoShotAllreduce::reduce_shared() {
  // What one call does at most, so that other operations get their turn.
  constexpr std::size_t kBytesPerTurn = 512 * 1024;
  const Range own = chunk_of(count_, dtype_, channel().size(), channel().rank());
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

void TwoShotAllreduce::copy_out(std::uint64_t index) {
  if (!shared_.empty() || is_void(index)) return;
  const auto copy = is_streamed_ ? stream_copy : [](void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  };
  visit_others(index, [&](int member, const Extent& extent) {
    copy(extent.out, pipeline().pair_slot(channel().rank(), member, index) + extent.in_pair_slot,
         extent.count * stride_);
  });
}

}  // namespace tnt::comm
