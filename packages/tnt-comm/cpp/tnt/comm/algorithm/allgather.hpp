#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/algorithm/gathered.hpp"
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
  /// Reads `in` until completion, and fills `gathered`.
  Allgather(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
            const Descriptor& descriptor, GatherInput in, std::shared_ptr<Gathered> gathered);

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index, std::byte* window) override;
  void copy_out(std::uint64_t index) override;

 private:
  GatherInput in_;
  std::size_t num_bytes_;
  std::shared_ptr<Gathered> gathered_;
};

}  // namespace tnt::comm
