#pragma once

#include <memory>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// Collectives among ranks that can only put into each other's memory.
class RmaCollectives : public Collectives {
 public:
  /// Longer messages take several blocks through slots of about this size.
  static MemoryNeeds memory_needs(int num_members, std::size_t slot_bytes);

  /// The memory begins at the offset and the notification.
  RmaCollectives(OperationContext context, std::shared_ptr<Segment> segment, std::size_t slot_bytes,
                 std::size_t offset, NotificationId notification);

  Made make(const Descriptor& descriptor, CallArrays arrays) override;

 protected:
  virtual Made allreduce(const Descriptor& descriptor, const CallArrays& arrays);

  const OperationContext& context() const { return context_; }
  const std::shared_ptr<FingerprintCheck>& check() const { return check_; }

 private:
  template <typename Operation, typename... Arguments>
  Made make_operation(const Descriptor& descriptor, Arguments&&... arguments);

  OperationContext context_;
  std::shared_ptr<FingerprintCheck> check_;
  std::shared_ptr<RmaStream> stream_;
};

}  // namespace tnt::comm
