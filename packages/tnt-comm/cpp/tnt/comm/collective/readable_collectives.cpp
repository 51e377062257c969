#include "tnt/comm/collective/readable_collectives.hpp"

#include <utility>

#include "tnt/comm/collective/allgather.hpp"
#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/collective/alltoall.hpp"
#include "tnt/comm/collective/barrier.hpp"
#include "tnt/comm/collective/broadcast.hpp"
#include "tnt/comm/collective/reduce_scatter.hpp"
#include "tnt/comm/collective/select.hpp"

namespace tnt::comm {

ChannelLayout ReadableCollectives::layout_with(std::size_t slot_bytes) {
  ChannelLayout layout;
  layout.slot_bytes = slot_bytes;
  layout.depth = 2;
  return layout;
}

MemoryNeeds ReadableCollectives::memory_needs(std::size_t slot_bytes) {
  return {layout_with(slot_bytes).num_bytes(), 0};
}

ReadableCollectives::ReadableCollectives(OperationContext context, std::shared_ptr<Segment> segment,
                                         std::size_t slot_bytes, std::size_t offset)
    : context_(std::move(context)) {
  ChannelLayout layout = layout_with(slot_bytes);
  layout.offset = offset;
  state_ = std::make_shared<ChannelState>(ChannelState{Channel(std::move(segment), layout)});
  const bool may_be_one_shot = context_.requested == AllreduceAlgorithm::automatic ||
                               context_.requested == AllreduceAlgorithm::one_shot;
  if (may_be_one_shot) quick_ = std::make_unique<QuickAllreduce>(state_);
}

template <typename Operation, typename... Arguments>
Collectives::Made ReadableCollectives::make_operation(const Descriptor& descriptor,
                                                      Arguments&&... arguments) {
  return std::make_shared<Operation>(context_.abort_state, state_, descriptor,
                                     std::forward<Arguments>(arguments)...);
}

Collectives::Made ReadableCollectives::take_over(const QuickAllreduce& quick, const void* in,
                                                 void* out) {
  auto operation =
      std::make_shared<OneShotAllreduce>(context_.abort_state, state_, quick.descriptor(), in, out);
  operation->take_over(quick.descriptor());
  return operation;
}

Collectives::Made ReadableCollectives::make(const Descriptor& descriptor, CallArrays arrays) {
  switch (descriptor.kind) {
    case CollectiveKind::barrier:
      return make_operation<Barrier>(descriptor);
    case CollectiveKind::allreduce:
      return allreduce(descriptor, arrays);
    case CollectiveKind::broadcast:
      return make_operation<Broadcast>(descriptor, arrays.in, arrays.out);
    case CollectiveKind::allgather:
    case CollectiveKind::gather:
    case CollectiveKind::creation:
      return make_operation<Allgather>(descriptor, std::move(arrays.gather_input),
                                       std::move(arrays.gathered));
    case CollectiveKind::reduce_scatter:
      return make_operation<ReduceScatter>(descriptor, std::move(arrays.parts), arrays.in,
                                           arrays.out);
    case CollectiveKind::alltoall:
    case CollectiveKind::scatter:
      return make_operation<Alltoall>(descriptor, std::move(arrays.parts), arrays.in, arrays.out);
  }
  throw Error(ErrorKind::comm, "this kind of collective is not known");
}

Collectives::Made ReadableCollectives::allreduce(const Descriptor& descriptor,
                                                 const CallArrays& arrays) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::readable,
                             .num_members = state_->channel.size()};
  const AllreduceAlgorithm algorithm =
      choose_allreduce(wanted, context_.requested, *context_.abort_state);
  if (algorithm == AllreduceAlgorithm::one_shot)
    return make_operation<OneShotAllreduce>(descriptor, arrays.in, arrays.out);
  return make_operation<TwoShotAllreduce>(descriptor, arrays.in, arrays.out, context_.regions);
}

}  // namespace tnt::comm
