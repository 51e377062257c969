#include "tnt/comm/collective/rma/rma_collectives.hpp"
#include "tnt/comm/base/cache_line.hpp"

#include <utility>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/allgather.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/barrier.hpp"
#include "tnt/comm/collective/rma/broadcast.hpp"
#include "tnt/comm/collective/rma/reduce_scatter.hpp"
#include "tnt/comm/collective/select.hpp"

namespace tnt::comm {
namespace {

// Enough blocks under way that a rank has something to send while it waits for
// the rounds of the others: with eight ranks, six of them for each block.
constexpr std::size_t kDepth = 4;

RmaLayout layout_with(int num_members, std::size_t slot_bytes) {
  RmaLayout layout;
  layout.areas = slot_areas(num_members, slot_bytes);
  layout.depth = kDepth;
  return layout;
}

std::size_t check_bytes(int num_members) {
  return round_up(FingerprintCheck::num_bytes(num_members), kCacheLineBytes);
}

}  // namespace

MemoryNeeds RmaCollectives::memory_needs(int num_members, std::size_t slot_bytes) {
  return {
      check_bytes(num_members) + layout_with(num_members, slot_bytes).num_bytes(),
      FingerprintCheck::num_notifications(num_members) + RmaLayout::num_notifications(num_members)};
}

RmaCollectives::RmaCollectives(OperationContext context, std::shared_ptr<Segment> segment,
                               std::size_t slot_bytes, std::size_t offset,
                               NotificationId notification)
    : context_(std::move(context)),
      check_(std::make_shared<FingerprintCheck>(segment, offset, notification)) {
  RmaLayout layout = layout_with(segment->size(), slot_bytes);
  layout.offset = offset + check_bytes(segment->size());
  layout.notification = notification + FingerprintCheck::num_notifications(segment->size());
  stream_ = std::make_shared<RmaStream>(RmaStream{RmaChannel(std::move(segment), layout)});
}

template <typename Operation, typename... Arguments>
Collectives::Made RmaCollectives::make(const Descriptor& descriptor, Arguments&&... arguments) {
  return std::make_shared<Operation>(context_.abort_state, check_, stream_, descriptor,
                                     std::forward<Arguments>(arguments)...);
}

Collectives::Made RmaCollectives::barrier(const Descriptor& descriptor) {
  return make<RmaBarrier>(descriptor);
}

Collectives::Made RmaCollectives::allreduce(const Descriptor& descriptor, const void* in,
                                            void* out) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::put_only,
                             .num_members = stream_->channel.size()};
  const AllreduceAlgorithm algorithm =
      choose_allreduce(wanted, context_.requested, *context_.abort_state);
  const MessagePattern pattern = pattern_of(algorithm);
  return make<RmaAllreduce>(descriptor, pattern.exchange, pattern.has_many_blocks_under_way, in,
                            out);
}

Collectives::Made RmaCollectives::broadcast(const Descriptor& descriptor, const void* in,
                                            void* out) {
  return make<RmaBroadcast>(descriptor, in, out);
}

Collectives::Made RmaCollectives::allgather(const Descriptor& descriptor, GatherInput in,
                                            std::shared_ptr<Gathered> gathered) {
  return make<RmaAllgather>(descriptor, std::move(in), std::move(gathered));
}

Collectives::Made RmaCollectives::reduce_scatter(const Descriptor& descriptor,
                                                 std::vector<Range> parts, const void* in,
                                                 void* out) {
  return make<RmaReduceScatter>(descriptor, parts, in, out);
}

}  // namespace tnt::comm
