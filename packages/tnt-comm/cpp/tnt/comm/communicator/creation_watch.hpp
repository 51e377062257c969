#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/collective/call_label.hpp"
#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/creations.hpp"
#include "tnt/comm/progress/engine.hpp"

namespace tnt::comm {

/// Watches the creation of a group, as long as it lives, while this rank waits for the
/// other members, and tells them if this rank fails.
class CreationWatch {
 public:
  /// `creations` may be null: nothing is watched then. `title` is the group's.
  CreationWatch(std::shared_ptr<Creations> creations, const CreationId& id,
                std::vector<int> members, std::string title, const CallLabel& label,
                double stall_report_s);
  /// The creation has ended, well or not.
  ~CreationWatch();
  CreationWatch(const CreationWatch&) = delete;
  CreationWatch& operator=(const CreationWatch&) = delete;

  /// To be called several times per second, or more often. Throws the failure of
  /// another member. After a long wait: a mismatch error if another member waits for
  /// this rank in another call.
  void look();

  /// This rank gives the creation up, unless all have heard of another's failure.
  void fail(const Error& error);

 private:
  void require_same_group();

  std::shared_ptr<Creations> creations_;
  CreationId id_;
  std::vector<int> members_;
  std::string title_;
  const CallLabel& label_;
  double stall_report_s_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  bool has_note_ = false;
  bool is_over_ = false;  // and all members know
};

/// Ends an operation, which this thread has waited for for long, if a rank that
/// it waits for creates a group meanwhile, and waits for this rank in turn.
void refuse_creations_by_awaited(Engine& engine, CollectiveOperation& operation,
                                 const AbortState& abort_state, std::uint32_t count);

}  // namespace tnt::comm
