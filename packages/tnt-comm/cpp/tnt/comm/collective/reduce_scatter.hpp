#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/collective/parts_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Reduce-scatter: rank r gets part r of the reduced array, see PartsOperation.
class ReduceScatter final : public PartsOperation {
 public:
  /// `out` receives this rank's part and must not overlap `in`.
  ReduceScatter(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                const Descriptor& descriptor, std::vector<Range> parts, const void* in, void* out);

 protected:
  void copy_out(std::uint64_t index) override;

 private:
  std::byte* out_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
