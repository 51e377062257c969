#pragma once

#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// Broadcast: per block the root copies a block into its slot, and everybody
/// else copies it out of there.
///
/// Blocks: ceil(bytes / slot), one round each. The others post too, so that
/// the root knows that its slots are free, and that a mismatch is seen.
class Broadcast final : public StagedOperation {
 public:
  /// `in` is read by the root only; `out` is written by everybody, on the root
  /// unless it is `in`.
  Broadcast(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
            const Descriptor& descriptor, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* slot) override;
  void copy_out(std::uint64_t index) override;

 private:
  bool is_root() const { return channel().rank() == static_cast<int>(descriptor().root); }

  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_;
};

}  // namespace tnt::comm
