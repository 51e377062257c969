#pragma once

#include <memory>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"
#include "tnt/comm/collective/rma/rma_pipeline.hpp"

namespace tnt::comm {

/// Collectives among ranks that can only put into each other's memory.
class RmaCollectives : public Collectives {
 public:
  /// Longer messages take several blocks through slots of about this size.
  static MemoryNeeds memory_needs(int num_members, std::size_t slot_bytes);

  RmaCollectives(OperationContext context, const StreamMemory& memory);

  Made make(const Descriptor& descriptor, CallArrays arrays) final;

 protected:
  virtual Made allreduce(const Descriptor& descriptor, const CallArrays& arrays);

  MessagePattern choose_pattern(const AllreduceCase& wanted) const;
  RmaStream& stream() const { return *stream_; }

 private:
  OperationContext context_;
  std::shared_ptr<RmaStream> stream_;
};

/// Collectives among ranks on several hosts: an allreduce over two levels,
/// everything else straight between all ranks.
class HierarchicalCollectives final : public RmaCollectives {
 public:
  /// What is needed of a segment of the ranks of each host, and of one of the
  /// ranks with the same place on all hosts.
  static MemoryNeeds needs_on_host(const HostLayout& hosts, std::size_t slot_bytes);
  static MemoryNeeds needs_between_hosts(const HostLayout& hosts, std::size_t slot_bytes);

  HierarchicalCollectives(const OperationContext& context, const StreamMemory& memory,
                          const HostLayout& hosts);

 protected:
  Made allreduce(const Descriptor& descriptor, const CallArrays& arrays) override;

 private:
  HostLevel host_;
  std::shared_ptr<RmaStream> between_hosts_;
};

}  // namespace tnt::comm
