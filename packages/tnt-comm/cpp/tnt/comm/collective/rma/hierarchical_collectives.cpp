#include "tnt/comm/collective/rma/hierarchical_collectives.hpp"

#include <utility>

#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"
#include "tnt/comm/collective/select.hpp"

namespace tnt::comm {
namespace {

// As many blocks under way as between ranks without levels.
constexpr std::size_t kDepth = 4;

RmaLayout layout_between(int num_hosts, std::size_t slot_bytes) {
  RmaLayout layout;
  layout.areas = slot_areas(num_hosts, slot_bytes);
  layout.depth = kDepth;
  return layout;
}

// The chunk of a rank is what fills a slot of the exchange.
std::size_t host_slot_bytes(int members_per_host, std::size_t slot_bytes) {
  return static_cast<std::size_t>(members_per_host) * slot_bytes;
}

}  // namespace

MemoryNeeds HierarchicalCollectives::needs_on_host(int members_per_host, std::size_t slot_bytes) {
  return HostStaging::memory_needs(host_slot_bytes(members_per_host, slot_bytes), kDepth);
}

MemoryNeeds HierarchicalCollectives::needs_between_hosts(int num_hosts, std::size_t slot_bytes) {
  return {layout_between(num_hosts, slot_bytes).num_bytes(),
          RmaLayout::num_notifications(num_hosts)};
}

HierarchicalCollectives::HierarchicalCollectives(const OperationContext& context,
                                                 std::shared_ptr<Segment> segment,
                                                 std::shared_ptr<Segment> on_host,
                                                 std::shared_ptr<Segment> between_hosts,
                                                 const HostLayout& hosts, std::size_t slot_bytes,
                                                 std::size_t offset, NotificationId notification)
    : RmaCollectives(context, std::move(segment), slot_bytes, offset, notification),
      hosts_(hosts),
      slots_(std::make_shared<HostStaging>(
          std::move(on_host), host_slot_bytes(hosts.members_per_host, slot_bytes), kDepth)),
      stream_(std::make_shared<RmaStream>(RmaStream{
          RmaChannel(std::move(between_hosts), layout_between(hosts.num_hosts, slot_bytes))})) {}

Collectives::Made HierarchicalCollectives::allreduce(const Descriptor& descriptor,
                                                     const CallArrays& arrays) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::hierarchical,
                             .num_members = hosts_.num_hosts * hosts_.members_per_host,
                             .num_hosts = hosts_.num_hosts};
  const MessagePattern pattern =
      pattern_of(choose_allreduce(wanted, context().requested, *context().abort_state));
  return std::make_shared<HierarchicalAllreduce>(
      context().abort_state, check(), stream_, slots_, hosts_, descriptor, pattern.exchange,
      pattern.has_many_blocks_under_way, arrays.in, arrays.out);
}

}  // namespace tnt::comm
