#pragma once

#include <memory>

#include "tnt/comm/collective/channel.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/quick_allreduce.hpp"
#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// Collectives among ranks that can read each other's memory.
class ReadableCollectives final : public Collectives {
 public:
  /// Of the channel: a block is copied in while the one before is reduced.
  static ChannelLayout layout_with(std::size_t slot_bytes);

  /// Longer messages take several blocks through slots of this size.
  static MemoryNeeds memory_needs(std::size_t slot_bytes);

  /// The memory begins at the offset.
  ReadableCollectives(OperationContext context, std::shared_ptr<Segment> segment,
                      std::size_t slot_bytes, std::size_t offset);

  QuickAllreduce* quick_allreduce() override { return quick_.get(); }
  Made take_over(const QuickAllreduce& quick, const void* in, void* out) override;

  Made make(const Descriptor& descriptor, CallArrays arrays) override;

 private:
  template <typename Operation, typename... Arguments>
  Made make_operation(const Descriptor& descriptor, Arguments&&... arguments);
  Made allreduce(const Descriptor& descriptor, const CallArrays& arrays);

  OperationContext context_;
  std::shared_ptr<ChannelState> state_;
  std::unique_ptr<QuickAllreduce> quick_;
};

}  // namespace tnt::comm
