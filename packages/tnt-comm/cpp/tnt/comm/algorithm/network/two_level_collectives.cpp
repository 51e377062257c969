#include "tnt/comm/algorithm/network/two_level_collectives.hpp"

#include <utility>

#include "tnt/comm/algorithm/network/two_level_allreduce.hpp"
#include "tnt/comm/algorithm/select.hpp"

namespace tnt::comm {
namespace {

// As many steps under way as between ranks without levels.
constexpr std::size_t kDepth = 4;

NetworkLayout layout_between(int num_hosts, std::size_t window_bytes) {
  NetworkLayout layout;
  layout.areas = window_areas(num_hosts, window_bytes);
  layout.depth = kDepth;
  return layout;
}

// The slice of a rank is what fills a window of the exchange.
std::size_t host_window_bytes(int members_per_host, std::size_t window_bytes) {
  return static_cast<std::size_t>(members_per_host) * window_bytes;
}

}  // namespace

MemoryNeeds TwoLevelCollectives::needs_on_host(int members_per_host, std::size_t window_bytes) {
  return HostWindows::memory_needs(host_window_bytes(members_per_host, window_bytes), kDepth);
}

MemoryNeeds TwoLevelCollectives::needs_between_hosts(int num_hosts, std::size_t window_bytes) {
  return {layout_between(num_hosts, window_bytes).num_bytes(),
          NetworkLayout::num_notifications(num_hosts)};
}

TwoLevelCollectives::TwoLevelCollectives(const OperationContext& context,
                                         std::shared_ptr<Segment> segment,
                                         std::shared_ptr<Segment> on_host,
                                         std::shared_ptr<Segment> between_hosts,
                                         const HostLayout& hosts, std::size_t window_bytes,
                                         std::size_t offset, NotificationId notification)
    : PutOnlyCollectives(context, std::move(segment), window_bytes, offset, notification),
      hosts_(hosts),
      windows_(std::make_shared<HostWindows>(
          std::move(on_host), host_window_bytes(hosts.members_per_host, window_bytes), kDepth)),
      stream_(std::make_shared<NetworkStream>(NetworkStream{NetworkChannel(
          std::move(between_hosts), layout_between(hosts.num_hosts, window_bytes))})) {}

Collectives::Made TwoLevelCollectives::allreduce(const Descriptor& descriptor, const void* in,
                                                 void* out) {
  const AllreduceCase wanted{.num_bytes = descriptor.count * size_of(descriptor.dtype),
                             .dtype = descriptor.dtype,
                             .topology = Topology::two_level,
                             .num_members = hosts_.num_hosts * hosts_.members_per_host,
                             .num_hosts = hosts_.num_hosts};
  const MessagePattern pattern =
      pattern_of(choose_allreduce(wanted, context().requested, *context().health));
  return std::make_shared<TwoLevelAllreduce>(context().health, agreement(), stream_, windows_,
                                             hosts_, descriptor, pattern.exchange,
                                             pattern.has_many_pieces_under_way, in, out);
}

}  // namespace tnt::comm
