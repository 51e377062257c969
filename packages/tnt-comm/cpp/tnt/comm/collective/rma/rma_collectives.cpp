#include "tnt/comm/collective/rma/rma_collectives.hpp"

#include <utility>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/exchange.hpp"
#include "tnt/comm/collective/rma/rma_exchange.hpp"

namespace tnt::comm {
namespace {

std::size_t check_bytes(int num_members) {
  return round_up(FingerprintCheck::num_bytes(num_members), kCacheLineBytes);
}

std::shared_ptr<RmaStream> make_stream(const OperationContext& context,
                                       const StreamMemory& memory) {
  const int size = memory.segment->size();
  RmaLayout layout = stream_layout(size, memory.slot_bytes);
  layout.offset = memory.offset + check_bytes(size);
  layout.notification = memory.notification + FingerprintCheck::num_notifications(size);
  return std::make_shared<RmaStream>(RmaStream{
      .abort_state = context.abort_state,
      .check =
          std::make_shared<FingerprintCheck>(memory.segment, memory.offset, memory.notification),
      .staging = RmaStaging(memory.segment, layout)});
}

// The chunk of a rank is what fills a slot of the exchange, and as many blocks are under way.
ChannelLayout layout_on_host(const HostLayout& hosts, std::size_t slot_bytes) {
  return {.slot_bytes = static_cast<std::size_t>(hosts.members_per_host) * slot_bytes,
          .depth = stream_layout(hosts.num_hosts, slot_bytes).depth};
}

}  // namespace

MemoryNeeds RmaCollectives::memory_needs(int num_members, std::size_t slot_bytes) {
  return {check_bytes(num_members) + stream_layout(num_members, slot_bytes).num_bytes(),
          FingerprintCheck::num_notifications(num_members) + max_num_rounds(num_members)};
}

RmaCollectives::RmaCollectives(OperationContext context, const StreamMemory& memory)
    : context_(std::move(context)), stream_(make_stream(context_, memory)) {}

Collectives::Made RmaCollectives::make(const Descriptor& descriptor, CallArrays arrays) {
  if (descriptor.kind == CollectiveKind::allreduce) return allreduce(descriptor, arrays);
  return make_exchange<RmaWorld>(stream_, descriptor, std::move(arrays));
}

MessagePattern RmaCollectives::choose_pattern(const AllreduceCase& wanted) const {
  return pattern_of(choose_allreduce(wanted, context_.requested, *context_.abort_state));
}

Collectives::Made RmaCollectives::allreduce(const Descriptor& descriptor,
                                            const CallArrays& arrays) {
  const MessagePattern pattern = choose_pattern({.num_bytes = descriptor.num_bytes(),
                                                 .dtype = descriptor.dtype,
                                                 .topology = Topology::put_only,
                                                 .num_members = stream_->staging.size()});
  return std::make_shared<RmaCall<RmaAllreduce>>(stream_, descriptor, pattern, arrays);
}

MemoryNeeds HierarchicalCollectives::needs_on_host(const HostLayout& hosts,
                                                   std::size_t slot_bytes) {
  return {layout_on_host(hosts, slot_bytes).num_bytes(), 0};
}

MemoryNeeds HierarchicalCollectives::needs_between_hosts(const HostLayout& hosts,
                                                         std::size_t slot_bytes) {
  return {stream_layout(hosts.num_hosts, slot_bytes).num_bytes(), max_num_rounds(hosts.num_hosts)};
}

HierarchicalCollectives::HierarchicalCollectives(const OperationContext& context,
                                                 const StreamMemory& memory,
                                                 const HostLayout& hosts)
    : RmaCollectives(context, memory),
      host_{.hosts = hosts,
            .channel = std::make_shared<Channel>(memory.on_host,
                                                 layout_on_host(hosts, memory.slot_bytes))},
      between_hosts_(std::make_shared<RmaStream>(
          RmaStream{.abort_state = context.abort_state,
                    .check = stream().check,
                    .staging = RmaStaging(memory.between_hosts,
                                          stream_layout(hosts.num_hosts, memory.slot_bytes))})) {}

Collectives::Made HierarchicalCollectives::allreduce(const Descriptor& descriptor,
                                                     const CallArrays& arrays) {
  const HostLayout& hosts = host_.hosts;
  const MessagePattern pattern =
      choose_pattern({.num_bytes = descriptor.num_bytes(),
                      .dtype = descriptor.dtype,
                      .topology = Topology::hierarchical,
                      .num_members = hosts.num_hosts * hosts.members_per_host,
                      .num_hosts = hosts.num_hosts});
  return std::make_shared<RmaCall<HierarchicalAllreduce>>(between_hosts_, descriptor, host_,
                                                          pattern, arrays);
}

}  // namespace tnt::comm
