#include "tnt/comm/collective/two_shot_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/collective/chunks.hpp"
#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/kernel/stream_copy.hpp"

namespace tnt::comm {

struct TwoShotBlocks::Extent {
  const std::byte* in;
  std::byte* out;
  double scale;
  std::size_t in_pair_slot;  // offset in bytes
  std::size_t count;         // elements
};

TwoShotBlocks::TwoShotBlocks(const StagingPipeline& pipeline, DType dtype, ReduceOp op,
                             std::size_t count)
    : pipeline_(pipeline),
      dtype_(dtype),
      stride_(size_of(dtype)),
      count_(count),
      sources_(static_cast<std::size_t>(pipeline.channel().size())),
      reducer_(dtype, op, sources_.size()) {
  const std::size_t pair_slot_length = pipeline.channel().pair_slot_bytes() / stride_;
  block_length_ = pair_slot_length * sources_.size();
  num_blocks_ = std::max<std::size_t>(1, (count + block_length_ - 1) / block_length_);
}

Range TwoShotBlocks::elements_of(std::uint64_t block) const {
  const std::size_t begin = block * block_length_;
  return {begin, std::min<std::size_t>(begin + block_length_, count_)};
}

// Calls function(Extent) for what runs hold of a member's chunk of the block.
template <typename Function>
void TwoShotBlocks::visit(std::uint64_t block, int member, const Function& function) const {
  const Range whole = elements_of(block);
  const Range chunk = chunk_of(whole.size(), dtype_, pipeline_.channel().size(), member);
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
void TwoShotBlocks::visit_others(std::uint64_t block, const Function& function) const {
  for (int member = 0; member < pipeline_.channel().size(); ++member) {
    if (member == pipeline_.channel().rank()) continue;
    visit(block, member, [&](const Extent& extent) { function(member, extent); });
  }
}

void TwoShotBlocks::copy_in(std::uint64_t block, std::uint64_t index) {
  const int rank = pipeline_.channel().rank();
  visit_others(block, [&](int member, const Extent& extent) {
    pack_scaled(pipeline_.pair_slot(rank, member, index) + extent.in_pair_slot, extent.in,
                extent.count, dtype_, extent.scale);
  });
}

void TwoShotBlocks::reduce(std::uint64_t block, std::uint64_t index) {
  const int rank = pipeline_.channel().rank();
  visit(block, rank, [&](const Extent& extent) {
    const std::byte* own = extent.in;
    if (extent.scale != 1) {
      pack_scaled(extent.out, extent.in, extent.count, dtype_, extent.scale);
      own = extent.out;
    }
    targets_.assign(1, extent.out);
    for (int member = 0; member < pipeline_.channel().size(); ++member) {
      std::byte* pair_slot = pipeline_.pair_slot(member, rank, index) + extent.in_pair_slot;
      sources_[static_cast<std::size_t>(member)] = member == rank ? own : pair_slot;
      if (member != rank) targets_.push_back(pair_slot);
    }
    reducer_.reduce_to(targets_, sources_.data(), sources_.size(), extent.count);
  });
}

void TwoShotBlocks::copy_out(std::uint64_t block, std::uint64_t index) {
  const auto copy = is_streamed_ ? stream_copy : [](void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  };
  const int rank = pipeline_.channel().rank();
  visit_others(block, [&](int member, const Extent& extent) {
    copy(extent.out, pipeline_.pair_slot(rank, member, index) + extent.in_pair_slot,
         extent.count * stride_);
  });
}

}  // namespace tnt::comm
