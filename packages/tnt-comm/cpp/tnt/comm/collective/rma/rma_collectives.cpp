#include "tnt/comm/collective/rma/rma_collectives.hpp"

#include <utility>

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/allgather.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/alltoall.hpp"
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
Collectives::Made RmaCollectives::make_operation(const Descriptor& descriptor,
                                                 Arguments&&... arguments) {
  return std::make_shared<Operation>(context_.abort_state, check_, stream_, descriptor,
                                     std::forward<Arguments>(arguments)...);
}

Collectives::Made RmaCollectives::make(const Descriptor& descriptor, CallArrays arrays) {
  switch (descriptor.kind) {
    case CollectiveKind::barrier:
      return make_operation<RmaBarrier>(descriptor);
    case CollectiveKind::allreduce:
      return allreduce(descriptor, arrays);
    case CollectiveKind::broadcast:
      return make_operation<RmaBroadcast>(descriptor, arrays.in, arrays.out);
    case CollectiveKind::allgather:
    case CollectiveKind::gather:
    case CollectiveKind::creation:
      return make_operation<RmaAllgather>(descriptor, std::move(arrays.gather_input),
                                          std::move(arrays.gathered));
    case CollectiveKind::reduce_scatter:
      return make_operation<RmaReduceScatter>(descriptor, std::move(arrays.parts), arrays.in,
                                              arrays.out);
    case CollectiveKind::alltoall:
    case CollectiveKind::scatter:
      return make_operation<RmaAlltoall>(descriptor, std::move(arrays.parts), arrays.in,
                                         arrays.out);
  }
  throw Error(ErrorKind::comm, "this kind of collective is not known");
}

Collectives::Made RmaCollectives::allreduce(const Descriptor& descriptor,
                                            const CallArrays& arrays) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::put_only,
                             .num_members = stream_->channel.size()};
  const AllreduceAlgorithm algorithm =
      choose_allreduce(wanted, context_.requested, *context_.abort_state);
  const MessagePattern pattern = pattern_of(algorithm);
  return make_operation<RmaAllreduce>(descriptor, pattern.exchange,
                                      pattern.has_many_blocks_under_way, arrays.in, arrays.out);
}

}  // namespace tnt::comm
