#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/algorithm/shared_blocks.hpp"
#include "tnt/comm/algorithm/windowed_operation.hpp"

namespace tnt::comm {

/// What an allreduce algorithm needs to be made.
struct AllreduceRequest {
  std::shared_ptr<Health> health;
  double stall_report_s;
  std::shared_ptr<ChannelState> state;
  Descriptor descriptor;
  const void* in;
  void* out;
  std::shared_ptr<const SharedBlocks> blocks;
};

/// One row per algorithm: it is used for messages of up to `limit_bytes(n)`
/// bytes that no earlier row takes. The choice depends on nothing but the
/// size of the message and of the group, so all ranks choose alike.
struct AllreduceChoice {
  const char* name;
  std::size_t (*limit_bytes)(int num_members);
  std::shared_ptr<WindowedOperation> (*make)(const AllreduceRequest& request);
};

const AllreduceChoice& choose_allreduce(std::size_t num_bytes, int num_members);

}  // namespace tnt::comm
