#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/host_layout.hpp"
#include "tnt/comm/collective/rma/host_staging.hpp"
#include "tnt/comm/collective/rma/partial_reducer.hpp"
#include "tnt/comm/collective/rma/reduction_schedule.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// Allreduce of private arrays of ranks on several hosts, q on each: what a
/// host has is summed before it crosses the network, so that each byte crosses
/// it once per host and not once per rank.
///
/// For each block of the arrays:
///   1. every rank copies it into its slot of the host;
///   2. rank i of a host reduces chunk i (1/q of the block) out of the slots
///      of the host, into registered memory;
///   3. the ranks i of all H hosts exchange their chunks (see Exchange), q
///      exchanges side by side;
///   4. rank i writes the result of chunk i to all slots of the host, and
///      everybody copies its own slot.
///
/// The ranks of a host are a branch of the tree (HostLayout), so the order of
/// the sum is the same as without levels. 16-bit floats cross the network as
/// float32 and are rounded once, in 4; then any exchange will do.
///
/// Blocks: ceil(bytes / longest block). Bytes that a rank sends over the network: those
/// of the exchange among H for 1/q of the array.
class HierarchicalAllreduce final : public RmaOperation {
 public:
  /// `stream`: of the ranks with the same place on their hosts. `slots`: of
  /// this host, used by these operations only. `out` may be `in`; both stay
  /// untouched by others until completion.
  HierarchicalAllreduce(std::shared_ptr<AbortState> abort_state,
                        std::shared_ptr<FingerprintCheck> fingerprint_check,
                        std::shared_ptr<RmaStream> stream, std::shared_ptr<HostStaging> slots,
                        const HostLayout& hosts, const Descriptor& descriptor,
                        const Exchange& exchange, bool is_pipelined, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  bool is_filled(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  Combiner combiner() override { return {&reducer_, size_of(partial_type_)}; }
  void on_exchanged(std::uint64_t index) override;
  bool is_complete(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;
  void append_missing(std::vector<int>& members) const override;

 private:
  Range block(std::uint64_t index) const;      // elements of the array
  Range own_chunk(std::uint64_t index) const;  // elements of the block
  int host() const { return channel().rank(); }
  std::uint64_t block_of(std::uint64_t index) const { return first_block() + index; }

  std::shared_ptr<HostStaging> slots_;
  HostLayout hosts_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t element_bytes_;
  DType partial_type_;
  std::size_t block_elements_;
  Schedule full_;  // of all blocks but the last
  Schedule last_;
  PartialReducer on_host_;
  TreeReducer reducer_;
  std::vector<const std::byte*> operands_;
};

}  // namespace tnt::comm
