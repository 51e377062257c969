#include "tnt/comm/collective/allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/collective/chunks.hpp"
#include "tnt/comm/kernel/stream_copy.hpp"

namespace tnt::comm {

TwoShotAllreduce::TwoShotAllreduce(std::shared_ptr<AbortState> abort_state,
                                   std::shared_ptr<ChannelState> state,
                                   const Descriptor& descriptor, const void* in, void* out,
                                   std::shared_ptr<const SharedRegions> regions)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      regions_(std::move(regions)),
      blocks_(pipeline(), descriptor.dtype, descriptor.op, descriptor.count),
      sources_(static_cast<std::size_t>(channel().size())) {
  const std::size_t num_bytes = descriptor.count * size_of(descriptor.dtype);
  blocks_.runs().push_back({.range = {0, descriptor.count},
                            .in = static_cast<const std::byte*>(in),
                            .out = static_cast<std::byte*>(out)});
  if (is_beyond_caches(num_bytes, channel().size())) blocks_.stream();
  has_second_round = true;
  SharedRegions::Place in_place{};
  SharedRegions::Place out_place{};
  const bool is_shared = channel().size() > 1 && regions_ &&
                         regions_->find(in, num_bytes, in_place) &&
                         regions_->find(out, num_bytes, out_place);
  if (is_shared) {
    share({in_place.region, in_place.offset, out_place.region, out_place.offset});
  }
  num_blocks = is_shared ? 1 : blocks_.num_blocks();
}

void TwoShotAllreduce::on_match() {
  int num_shared = 0;
  for (int member = 0; member < channel().size(); ++member) {
    if (posting_of(member).is_shared) ++num_shared;
  }
  if (num_shared == 0) return;
  is_mixed_ = num_shared < channel().size();
  if (is_mixed_) {
    num_blocks = blocks_.num_blocks() + 1;
    return;
  }
  for (int member = 0; member < channel().size(); ++member) arrays_.push_back(arrays_of(member));
}

TwoShotAllreduce::Arrays TwoShotAllreduce::arrays_of(int member) const {
  const SharedOffsets places = posting_of(member).places;
  Arrays arrays;
  arrays.in_segment = regions_->segment_of(places.in_region);
  arrays.out_segment = regions_->segment_of(places.out_region);
  arrays.in = arrays.in_segment->peer(member) + places.in_offset;
  arrays.out = arrays.out_segment->writable_peer(member) + places.out_offset;
  return arrays;
}

void TwoShotAllreduce::copy_in(std::uint64_t index, std::byte*) {
  if (index > 0 || !is_shared()) blocks_.copy_in(block(index), index);
}

bool TwoShotAllreduce::reduce(std::uint64_t index) {
  if (!arrays_.empty()) return reduce_shared();
  if (!is_void(index)) blocks_.reduce(block(index), index);
  return true;
}

bool TwoShotAllreduce::reduce_shared() {
  // What one call does at most, so that other operations get their turn.
  constexpr std::size_t kBytesPerTurn = 512 * 1024;
  const std::size_t stride = size_of(descriptor().dtype);
  const Range own =
      chunk_of(descriptor().count, descriptor().dtype, channel().size(), channel().rank());
  const std::size_t begin = own.begin + num_reduced_;
  const std::size_t length = std::min(own.end - begin, kBytesPerTurn / stride);
  if (length > 0) {
    std::vector<std::byte*> targets;
    for (std::size_t member = 0; member < arrays_.size(); ++member) {
      sources_[member] = arrays_[member].in + begin * stride;
      targets.push_back(arrays_[member].out + begin * stride);
    }
    blocks_.reducer().reduce_to(targets, sources_.data(), sources_.size(), length);
  }
  num_reduced_ += length;
  return num_reduced_ == own.size();
}

void TwoShotAllreduce::copy_out(std::uint64_t index) {
  if (arrays_.empty() && !is_void(index)) blocks_.copy_out(block(index), index);
}

OneShotAllreduce::OneShotAllreduce(std::shared_ptr<AbortState> abort_state,
                                   std::shared_ptr<ChannelState> state,
                                   const Descriptor& descriptor, const void* in, void* out)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      sources_(static_cast<std::size_t>(channel().size())),
      reducer_(descriptor.dtype, descriptor.op, sources_.size()) {}

void OneShotAllreduce::copy_in(std::uint64_t, std::byte* slot) {
  const std::size_t num_bytes = descriptor().count * size_of(descriptor().dtype);
  if (num_bytes > 0) std::memcpy(slot, in_, num_bytes);
}

void OneShotAllreduce::copy_out(std::uint64_t index) {
  for (int member = 0; member < channel().size(); ++member) {
    sources_[static_cast<std::size_t>(member)] = slot_of(member, index);
  }
  reducer_.reduce(out_, sources_.data(), sources_.size(), descriptor().count);
}

}  // namespace tnt::comm
