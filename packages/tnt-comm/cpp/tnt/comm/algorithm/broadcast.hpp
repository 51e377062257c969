#pragma once

#include "tnt/comm/algorithm/windowed_operation.hpp"

namespace tnt::comm {

/// Broadcast: per step the root copies a piece into its window, and everybody
/// else copies it out of there.
///
/// Steps: ceil(bytes / window), one round each. The others post too, so that
/// the root knows that its windows are free, and that a mismatch is seen.
class Broadcast final : public WindowedOperation {
 public:
  /// `in` is read by the root only; `out` is written by everybody, on the root
  /// unless it is `in`.
  Broadcast(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
            const Descriptor& descriptor, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* window) override;
  void copy_out(std::uint64_t index) override;

 private:
  bool is_root() const { return channel().rank() == static_cast<int>(descriptor().root); }

  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_;
};

}  // namespace tnt::comm
