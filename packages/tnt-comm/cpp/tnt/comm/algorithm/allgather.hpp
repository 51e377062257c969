#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/algorithm/windowed_operation.hpp"

namespace tnt::comm {

/// Allgather of blocks of different sizes.
///
/// Per step every rank offers the next window full of its block, and copies
/// what the others offer. The sizes are known from the first step's
/// descriptors, which also decide the number of steps: the longest block's.
///
/// Steps: ceil(longest block / window), one round each; every byte is copied
/// once in and n times out.
class Allgather final : public WindowedOperation {
 public:
  /// Reads `in` until completion.
  Allgather(std::shared_ptr<Health> health, double stall_report_s,
            std::shared_ptr<ChannelState> state, const Descriptor& descriptor, const void* in);

  /// Same, but owns the block.
  Allgather(std::shared_ptr<Health> health, double stall_report_s,
            std::shared_ptr<ChannelState> state, const Descriptor& descriptor,
            std::vector<std::byte> block);

  /// After completion: the blocks in rank order, back to back, and where each
  /// ends in bytes.
  const std::vector<std::byte>& result() const { return result_; }
  std::vector<std::byte>& result() { return result_; }
  const std::vector<std::size_t>& ends() const { return ends_; }

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index, std::byte* window) override;
  void copy_out(std::uint64_t index) override;

 private:
  std::vector<std::byte> owned_;
  const std::byte* in_;
  std::size_t num_bytes_;
  std::vector<std::byte> result_;
  std::vector<std::size_t> ends_;
};

}  // namespace tnt::comm
