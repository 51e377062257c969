#pragma once

#include <memory>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"
#include "tnt/comm/collective/rma/rma_pipeline.hpp"

namespace tnt::comm {

/// Collectives among ranks that can only put into each other's memory. Those of ranks on several
/// hosts whose memory has two levels have an allreduce over both; everything else goes straight
/// between all ranks.
class RmaCollectives final : public Collectives {
 public:
  /// Longer messages take several blocks through slots of about this size.
  static MemoryNeeds memory_needs(const SumTree& tree, std::size_t slot_bytes);
  /// With two levels, what is needed of a segment of the ranks of each host, and of one
  /// of the ranks with the same place on all hosts.
  static MemoryNeeds needs_on_host(const HostLayout& hosts, std::size_t slot_bytes);
  static MemoryNeeds needs_between_hosts(const HostLayout& hosts, std::size_t slot_bytes);

  /// `hosts`: with two levels.
  RmaCollectives(OperationContext context, const StreamMemory& memory,
                 const HostLayout& hosts = {});

  Made make(const Descriptor& descriptor, CallArrays arrays) override;

 private:
  OperationContext context_;
  std::shared_ptr<RmaStream> stream_;
  HostLevel host_;                            // with two levels
  std::shared_ptr<RmaStream> between_hosts_;  // likewise
};

}  // namespace tnt::comm
