#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/collective/chunks.hpp"

namespace tnt::comm {
namespace {

// Elements of a block whose chunks are equally long, begin on cache lines, and
// fit in a slot of the host and in one of the exchange.
std::size_t elements_of_blocks(const HostStaging& slots, std::size_t longest_exchanged,
                               DType dtype) {
  const auto num_chunks = static_cast<std::size_t>(slots.size());
  const std::size_t exchanged = longest_exchanged / size_of(accumulator_of(dtype));
  const std::size_t local = slots.slot_bytes() / num_chunks / size_of(dtype);
  const std::size_t line = kCacheLineBytes / size_of(dtype);
  return std::min(exchanged, local) / line * line * num_chunks;
}

}  // namespace

HierarchicalAllreduce::HierarchicalAllreduce(std::shared_ptr<AbortState> abort_state,
                                             std::shared_ptr<FingerprintCheck> fingerprint_check,
                                             std::shared_ptr<RmaStream> stream,
                                             std::shared_ptr<HostStaging> slots,
                                             const HostLayout& hosts, const Descriptor& descriptor,
                                             const Exchange& exchange, bool is_pipelined,
                                             const void* in, void* out)
    : RmaOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                   descriptor),
      slots_(std::move(slots)),
      hosts_(hosts),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      element_bytes_(size_of(descriptor.dtype)),
      partial_type_(accumulator_of(descriptor.dtype)),
      block_elements_(elements_of_blocks(
          *slots_, longest_block(exchange, channel().size(), channel().layout().areas),
          descriptor.dtype)),
      on_host_(descriptor.dtype, descriptor.op, static_cast<std::size_t>(slots_->size())),
      reducer_(partial_type_, descriptor.op, static_cast<std::size_t>(channel().size())),
      operands_(static_cast<std::size_t>(slots_->size())) {
  sends_before_match = true;
  if (!is_pipelined) most_blocks_in_flight = 1;
  num_blocks = std::max<std::size_t>(1, (descriptor.count + block_elements_ - 1) / block_elements_);
  const auto schedule = [&](std::uint64_t index) {
    const std::size_t num_bytes = own_chunk(index).size() * size_of(partial_type_);
    return allreduce_schedule(exchange, channel().rank(), channel().size(), num_bytes,
                              channel().areas());
  };
  if (num_blocks > 1) full_ = schedule(0);
  last_ = schedule(num_blocks - 1);
}

Range HierarchicalAllreduce::block(std::uint64_t index) const {
  const std::size_t begin = index * block_elements_;
  return {begin, std::min<std::size_t>(begin + block_elements_, descriptor().count)};
}

Range HierarchicalAllreduce::own_chunk(std::uint64_t index) const {
  return chunk_of(block(index).size(), descriptor().dtype, slots_->size(), slots_->rank());
}

const Schedule& HierarchicalAllreduce::schedule_of(std::uint64_t index) const {
  return index + 1 == num_blocks ? last_ : full_;
}

void HierarchicalAllreduce::copy_in(std::uint64_t index) {
  const Range elements = block(index);
  if (elements.size() > 0) {
    std::memcpy(slots_->own_slot(block_of(index)), in_ + elements.begin * element_bytes_,
                elements.size() * element_bytes_);
  }
  slots_->post(block_of(index));
}

bool HierarchicalAllreduce::is_filled(std::uint64_t index) {
  if (!slots_->have_all_posted(block_of(index))) return false;
  const Range own = own_chunk(index);
  for (int local_rank = 0; local_rank < slots_->size(); ++local_rank) {
    operands_[static_cast<std::size_t>(local_rank)] =
        slots_->slot_of(local_rank, block_of(index)) + own.begin * element_bytes_;
  }
  on_host_.reduce(slot(index) + channel().areas().work, operands_.data(), operands_.size(),
                  own.size());
  return true;
}

void HierarchicalAllreduce::on_exchanged(std::uint64_t index) {
  const Range own = own_chunk(index);
  on_host_.round(slots_->own_slot(block_of(index)) + own.begin * element_bytes_,
                 slot(index) + schedule_of(index).result, own.size());
  slots_->spread(block_of(index), own.begin * element_bytes_, own.size() * element_bytes_);
  slots_->publish(block_of(index));
}

bool HierarchicalAllreduce::is_complete(std::uint64_t index) {
  return slots_->have_all_published(block_of(index));
}

void HierarchicalAllreduce::copy_out(std::uint64_t index) {
  const Range elements = block(index);
  if (elements.size() == 0) return;
  std::memcpy(out_ + elements.begin * element_bytes_, slots_->own_slot(block_of(index)),
              elements.size() * element_bytes_);
}

void HierarchicalAllreduce::append_missing(std::vector<int>& members) const {
  const auto append_local = [&](const std::vector<int>& local_ranks) {
    for (const int local_rank : local_ranks) {
      members.push_back(hosts_.member_at(host(), local_rank));
    }
  };
  if (num_exchanging() < num_begun()) {
    append_local(slots_->missing_posts(block_of(num_exchanging())));
  }
  std::vector<int> hosts;
  runs().append_missing(hosts);
  for (const int host : hosts) members.push_back(hosts_.member_at(host, slots_->rank()));
  if (num_finished() < num_exchanged()) {
    append_local(slots_->missing_publications(block_of(num_finished())));
  }
}

}  // namespace tnt::comm
