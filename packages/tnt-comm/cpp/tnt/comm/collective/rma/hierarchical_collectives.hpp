#pragma once

#include <memory>

#include "tnt/comm/collective/rma/host_layout.hpp"
#include "tnt/comm/collective/rma/host_staging.hpp"
#include "tnt/comm/collective/rma/rma_collectives.hpp"

namespace tnt::comm {

/// Collectives among ranks on several hosts: an allreduce over two levels,
/// everything else straight between all ranks.
class HierarchicalCollectives final : public RmaCollectives {
 public:
  /// What is needed of a segment of the ranks of each host, and of one of the
  /// ranks with the same place on all hosts.
  static MemoryNeeds needs_on_host(int members_per_host, std::size_t slot_bytes);
  static MemoryNeeds needs_between_hosts(int num_hosts, std::size_t slot_bytes);

  /// `segment`: of all members; its memory begins at the offset and the
  /// notification. The other two are used from their begin.
  HierarchicalCollectives(const OperationContext& context, std::shared_ptr<Segment> segment,
                          std::shared_ptr<Segment> on_host, std::shared_ptr<Segment> between_hosts,
                          const HostLayout& hosts, std::size_t slot_bytes, std::size_t offset,
                          NotificationId notification);

 protected:
  Made allreduce(const Descriptor& descriptor, const CallArrays& arrays) override;

 private:
  HostLayout hosts_;
  std::shared_ptr<HostStaging> slots_;
  std::shared_ptr<RmaStream> stream_;
};

}  // namespace tnt::comm
