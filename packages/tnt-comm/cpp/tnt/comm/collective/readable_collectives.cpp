#include "tnt/comm/collective/readable_collectives.hpp"

#include <utility>

#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/collective/exchange.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/staged_exchange.hpp"

namespace tnt::comm {

ReadableCollectives::ReadableCollectives(OperationContext context, const StreamMemory& memory) {
  ChannelLayout layout = layout_with(memory.slot_bytes);
  layout.offset = memory.offset;
  const AllreduceAlgorithm requested = context.requested;
  stream_ = std::make_shared<StagedStream>(
      StagedStream{std::move(context), Channel(memory.segment, layout)});
  const bool may_be_one_shot =
      requested == AllreduceAlgorithm::automatic || requested == AllreduceAlgorithm::one_shot;
  if (may_be_one_shot) quick_ = std::make_unique<QuickAllreduce>(stream_);
}

Collectives::Made ReadableCollectives::take_over(const QuickAllreduce& quick, const void* in,
                                                 void* out) {
  auto operation = std::make_shared<StagedCall<OneShotAllreduce>>(stream_, quick.descriptor(),
                                                                  CallArrays{.in = in, .out = out});
  operation->take_over(quick.descriptor());
  return operation;
}

Collectives::Made ReadableCollectives::make(const Descriptor& descriptor, CallArrays arrays) {
  if (descriptor.kind != CollectiveKind::allreduce) {
    return make_exchange<StagedWorld>(stream_, descriptor, std::move(arrays));
  }
  const AllreduceCase wanted{.num_bytes = descriptor.num_bytes(),
                             .dtype = descriptor.dtype,
                             .topology = Topology::readable,
                             .num_members = stream_->channel.size()};
  const OperationContext& context = stream_->context;
  if (choose_allreduce(wanted, context.requested, *context.abort_state) ==
      AllreduceAlgorithm::one_shot) {
    return std::make_shared<StagedCall<OneShotAllreduce>>(stream_, descriptor, arrays);
  }
  return std::make_shared<StagedCall<TwoShotAllreduce>>(stream_, descriptor, arrays);
}

}  // namespace tnt::comm
