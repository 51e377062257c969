#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/collective/parts_operation.hpp"

namespace tnt::comm {

/// Alltoall: rank r gets part r of the arrays of all members, in member order;
/// and scatter, where the root alone has an array. See PartsOperation.
class Alltoall final : public PartsOperation {
 public:
  /// `out` receives the parts one behind the other and must not overlap `in`.
  Alltoall(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
           const Descriptor& descriptor, std::vector<Range> parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* slot) override;
  void copy_out(std::uint64_t index) override;

 private:
  std::byte* out_;
};

}  // namespace tnt::comm
