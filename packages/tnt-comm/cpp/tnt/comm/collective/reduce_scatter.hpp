#pragma once

#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/staged_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Reduce-scatter: rank r gets part r of the reduced array.
///
/// A slot is cut into n sub-slots. Per block every rank puts the next
/// sub-slot full of *each* part into the sub-slot of the rank it belongs
/// to, so that all ranks have something to reduce in every block.
///
/// Blocks: ceil(longest part / sub-slot), one round each.
class ReduceScatter final : public StagedOperation {
 public:
  /// `parts`: the elements each member is to get, in member order. `out`
  /// receives this rank's part and must not overlap `in`.
  ReduceScatter(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                const Descriptor& descriptor, std::vector<Range> parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* slot) override;
  void copy_out(std::uint64_t index) override;

 private:
  Range block(std::uint64_t index, int member) const;  // elements of the array

  std::vector<Range> parts_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t stride_;
  std::size_t sub_slot_;  // elements
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
