#include "tnt/comm/algorithm/network/put_only_collectives.hpp"

#include <utility>

#include "tnt/comm/algorithm/network/allgather.hpp"
#include "tnt/comm/algorithm/network/allreduce.hpp"
#include "tnt/comm/algorithm/network/barrier.hpp"
#include "tnt/comm/algorithm/network/broadcast.hpp"
#include "tnt/comm/algorithm/network/reduce_scatter.hpp"
#include "tnt/comm/algorithm/select.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

// Enough pieces under way that a rank has something to send while it waits for
// the rounds of the others: with eight ranks, six of them for each piece.
constexpr std::size_t kDepth = 4;

NetworkLayout layout_with(int num_members, std::size_t window_bytes) {
  NetworkLayout layout;
  layout.areas = window_areas(num_members, window_bytes);
  layout.depth = kDepth;
  return layout;
}

std::size_t agreement_bytes(int num_members) {
  constexpr std::size_t kCacheLine = 64;
  return round_up(Agreement::num_bytes(num_members), kCacheLine);
}

}  // namespace

MemoryNeeds PutOnlyCollectives::memory_needs(int num_members, std::size_t window_bytes) {
  return {
      agreement_bytes(num_members) + layout_with(num_members, window_bytes).num_bytes(),
      Agreement::num_notifications(num_members) + NetworkLayout::num_notifications(num_members)};
}

PutOnlyCollectives::PutOnlyCollectives(OperationContext context, std::shared_ptr<Segment> segment,
                                       std::size_t window_bytes, std::size_t offset,
                                       NotificationId notification)
    : context_(std::move(context)),
      agreement_(std::make_shared<Agreement>(segment, offset, notification)) {
  NetworkLayout layout = layout_with(segment->size(), window_bytes);
  layout.offset = offset + agreement_bytes(segment->size());
  layout.notification = notification + Agreement::num_notifications(segment->size());
  stream_ =
      std::make_shared<NetworkStream>(NetworkStream{NetworkChannel(std::move(segment), layout)});
}

template <typename Operation, typename... Arguments>
Collectives::Made PutOnlyCollectives::make(const Descriptor& descriptor, Arguments&&... arguments) {
  return std::make_shared<Operation>(context_.health, agreement_, stream_, descriptor,
                                     std::forward<Arguments>(arguments)...);
}

Collectives::Made PutOnlyCollectives::barrier(const Descriptor& descriptor) {
  return make<NetworkBarrier>(descriptor);
}

Collectives::Made PutOnlyCollectives::allreduce(const Descriptor& descriptor, const void* in,
                                                void* out) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::put_only,
                             .num_members = stream_->channel.size()};
  const AllreduceAlgorithm algorithm =
      choose_allreduce(wanted, context_.requested, *context_.health);
  const MessagePattern pattern = pattern_of(algorithm);
  return make<NetworkAllreduce>(descriptor, pattern.exchange, pattern.has_many_pieces_under_way, in,
                                out);
}

Collectives::Made PutOnlyCollectives::broadcast(const Descriptor& descriptor, const void* in,
                                                void* out) {
  return make<NetworkBroadcast>(descriptor, in, out);
}

Collectives::Made PutOnlyCollectives::allgather(const Descriptor& descriptor, GatherInput in,
                                                std::shared_ptr<Gathered> gathered) {
  return make<NetworkAllgather>(descriptor, std::move(in), std::move(gathered));
}

Collectives::Made PutOnlyCollectives::reduce_scatter(const Descriptor& descriptor,
                                                     std::vector<Range> parts, const void* in,
                                                     void* out) {
  return make<NetworkReduceScatter>(descriptor, parts, in, out);
}

}  // namespace tnt::comm
