#include "tnt/comm/algorithm/readable_collectives.hpp"

#include <utility>

#include "tnt/comm/algorithm/allgather.hpp"
#include "tnt/comm/algorithm/allreduce.hpp"
#include "tnt/comm/algorithm/barrier.hpp"
#include "tnt/comm/algorithm/broadcast.hpp"
#include "tnt/comm/algorithm/reduce_scatter.hpp"
#include "tnt/comm/algorithm/select.hpp"

namespace tnt::comm {
namespace {

// One step is copied in while the one before is reduced.
constexpr std::size_t kDepth = 2;

ChannelLayout layout_with(std::size_t window_bytes) {
  ChannelLayout layout;
  layout.window_bytes = window_bytes;
  layout.depth = kDepth;
  return layout;
}

}  // namespace

MemoryNeeds ReadableCollectives::memory_needs(int num_members, std::size_t window_bytes) {
  return {layout_with(window_bytes).num_bytes(static_cast<std::size_t>(num_members)),
          ChannelLayout::kNumNotifications};
}

ReadableCollectives::ReadableCollectives(OperationContext context, std::shared_ptr<Segment> segment,
                                         std::size_t window_bytes, std::size_t offset,
                                         NotificationId notification)
    : context_(std::move(context)) {
  ChannelLayout layout = layout_with(window_bytes);
  layout.offset = offset;
  layout.notification = notification;
  state_ = std::make_shared<ChannelState>(ChannelState{Channel(std::move(segment), layout)});
}

template <typename Operation, typename... Arguments>
Collectives::Made ReadableCollectives::make(const Descriptor& descriptor,
                                            Arguments&&... arguments) {
  return std::make_shared<Operation>(context_.health, context_.stall_report_s, state_, descriptor,
                                     std::forward<Arguments>(arguments)...);
}

Collectives::Made ReadableCollectives::barrier(const Descriptor& descriptor) {
  return make<Barrier>(descriptor);
}

Collectives::Made ReadableCollectives::allreduce(const Descriptor& descriptor, const void* in,
                                                 void* out) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::readable,
                             .num_members = state_->channel.size()};
  const AllreduceAlgorithm algorithm =
      choose_allreduce(wanted, context_.requested, *context_.health);
  if (algorithm == AllreduceAlgorithm::direct) return make<DirectAllreduce>(descriptor, in, out);
  return make<SlicedAllreduce>(descriptor, in, out);
}

Collectives::Made ReadableCollectives::broadcast(const Descriptor& descriptor, const void* in,
                                                 void* out) {
  return make<Broadcast>(descriptor, in, out);
}

Collectives::Made ReadableCollectives::allgather(const Descriptor& descriptor, GatherInput in,
                                                 std::shared_ptr<Gathered> gathered) {
  return make<Allgather>(descriptor, std::move(in), std::move(gathered));
}

Collectives::Made ReadableCollectives::reduce_scatter(const Descriptor& descriptor,
                                                      std::vector<Range> parts, const void* in,
                                                      void* out) {
  return make<ReduceScatter>(descriptor, std::move(parts), in, out);
}

}  // namespace tnt::comm
