#pragma once

#include <memory>
#include <utility>

#include "tnt/comm/base/export.hpp"
#include "tnt/comm/group/wait.hpp"

namespace tnt::comm {

class Group;

/// What a caller holds for an operation in flight. Keeps group and operation
/// alive, but not the caller's arrays.
class TNT_COMM_EXPORT Ticket {
 public:
  Ticket(std::shared_ptr<Group> group, std::shared_ptr<CollectiveOperation> operation)
      : group_(std::move(group)), operation_(std::move(operation)) {}

  bool is_done() const;

  /// Blocks; a `timeout_s` of 0 or less means the job's timeout.
  void wait(double timeout_s, const InterruptCheck& check_interrupt = {});

  template <typename Operation>
  Operation& operation() const {
    return static_cast<Operation&>(*operation_);
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<CollectiveOperation> operation_;
};

}  // namespace tnt::comm
