#pragma once

#include <memory>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/quick_allreduce.hpp"
#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

/// Collectives among ranks that can read each other's memory.
class ReadableCollectives final : public Collectives {
 public:
  /// Of the channel: a block is copied in while the one before is reduced. Longer messages take
  /// several blocks through slots of this size.
  static ChannelLayout layout_with(std::size_t slot_bytes) {
    return {.slot_bytes = slot_bytes, .depth = 2};
  }

  ReadableCollectives(OperationContext context, const StreamMemory& memory);

  QuickAllreduce* quick_allreduce() override { return quick_.get(); }
  Made take_over(const QuickAllreduce& quick, const void* in, void* out) override;

  Made make(const Descriptor& descriptor, CallArrays arrays) override;

 private:
  std::shared_ptr<StagedStream> stream_;
  std::unique_ptr<QuickAllreduce> quick_;
};

}  // namespace tnt::comm
