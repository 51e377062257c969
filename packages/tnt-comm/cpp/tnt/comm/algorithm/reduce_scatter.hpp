#pragma once

#include <vector>

#include "tnt/comm/algorithm/windowed_operation.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Reduce-scatter: rank r gets part r of the reduced array.
///
/// A window is cut into n sub-windows. Per step every rank puts the next
/// sub-window full of *each* part into the sub-window of the rank it belongs
/// to, so that all ranks have something to reduce in every step.
///
/// Steps: ceil(longest part / sub-window), one round each.
class ReduceScatter final : public WindowedOperation {
 public:
  /// `parts`: the elements each member is to get, in member order. `out`
  /// receives this rank's part and must not overlap `in`.
  ReduceScatter(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
                const Descriptor& descriptor, std::vector<Range> parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* window) override;
  void copy_out(std::uint64_t index) override;

 private:
  Range piece(std::uint64_t index, int member) const;  // elements of the array

  std::vector<Range> parts_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t stride_;
  std::size_t sub_window_;  // elements
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
