#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/collective/rma/parts_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// What `member` does to get the reduction of what all send to it; see
/// parts_schedule(). Its own operand, and the result, lie in the work area.
Schedule reduce_scatter_schedule(int member, int size, std::size_t share, const Areas& areas);

/// Reduce-scatter: rank r gets part r of the reduced array, see RmaPartsOperation.
class RmaReduceScatter final : public RmaPartsOperation {
 public:
  /// `out` receives this rank's part and must not overlap `in`.
  RmaReduceScatter(std::shared_ptr<AbortState> abort_state,
                   std::shared_ptr<FingerprintCheck> fingerprint_check,
                   std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                   const std::vector<Range>& parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  Combiner combiner() override { return {&reducer_, element_bytes_}; }
  void copy_out(std::uint64_t index) override;

 private:
  std::size_t element_bytes_;
  std::byte* out_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
