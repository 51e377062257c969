#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Bytes of each member's place in both areas of a reduce_scatter.
std::size_t reduce_scatter_share(int size, const AreaSizes& available);

/// What `member` does to get the reduction of what all send to it; what it
/// sends to member k lies at share * k in its work area. One round, n-1
/// messages, whose lengths are to be filled in.
Schedule reduce_scatter_schedule(int member, int size, std::size_t share, const Areas& areas);

/// Reduce-scatter: rank r gets part r of the reduced array.
///
/// Per block every rank sends the next share of *each* part to the rank that it
/// belongs to, so that all ranks have something to reduce in every block.
///
/// Blocks: ceil(longest part / share), n-1 messages per rank in each; every rank
/// sends all of the array but its own part, as it must.
class RmaReduceScatter final : public RmaOperation {
 public:
  /// `parts`: the elements each member is to get, in member order. `out`
  /// receives this rank's part and must not overlap `in`.
  RmaReduceScatter(std::shared_ptr<AbortState> abort_state,
                   std::shared_ptr<FingerprintCheck> fingerprint_check,
                   std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                   const std::vector<Range>& parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  Combiner combiner() override { return {&reducer_, element_bytes_}; }
  void copy_out(std::uint64_t index) override;

 private:
  Range block(std::uint64_t index, int member) const;  // bytes of the array

  std::size_t element_bytes_;
  std::vector<Range> parts_;  // bytes
  const std::byte* in_;
  std::byte* out_;
  std::size_t share_;
  std::vector<Schedule> schedules_;  // one per block under way
  TreeReducer reducer_;
};

}  // namespace tnt::comm
