#pragma once

#include <memory>
#include <utility>

#include "tnt/comm/base/export.hpp"
#include "tnt/comm/collective/gathered.hpp"
#include "tnt/comm/communicator/wait.hpp"

namespace tnt::comm {

class Group;

/// What a caller holds for an operation in flight. Keeps group and operation
/// alive, but not the caller's arrays.
class TNT_COMM_EXPORT Request {
 public:
  Request(std::shared_ptr<Group> group, std::shared_ptr<CollectiveOperation> operation,
          std::shared_ptr<Gathered> gathered)
      : group_(std::move(group)),
        operation_(std::move(operation)),
        gathered_(std::move(gathered)) {}

  bool is_done() const;

  /// Blocks; a `timeout_s` of 0 or less means the job's timeout.
  void wait(double timeout_s, const InterruptCheck& check_interrupt = {});

  /// Of an allgather that is done.
  Gathered& gathered() const { return *gathered_; }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<CollectiveOperation> operation_;
  std::shared_ptr<Gathered> gathered_;  // null for other collectives
};

}  // namespace tnt::comm
