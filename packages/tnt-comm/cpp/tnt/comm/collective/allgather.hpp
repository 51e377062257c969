#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/collective/gathered.hpp"
#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// Allgather of parts of different sizes; and gather, which the root alone takes.
///
/// Per block every rank offers the next slot full of its part, and copies
/// what the others offer. The sizes are known from the first block's
/// descriptors, which also decide the number of blocks: the longest part's.
///
/// Blocks: ceil(longest part / slot), one round each; every byte is copied
/// once in and n times out.
class Allgather final : public StagedOperation {
 public:
  /// Reads `in` until completion, and fills `gathered` where it is taken.
  Allgather(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
            const Descriptor& descriptor, std::shared_ptr<GatherInput> in,
            std::shared_ptr<Gathered> gathered);

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index, std::byte* slot) override;
  void copy_out(std::uint64_t index) override;

 private:
  std::shared_ptr<GatherInput> in_;
  std::size_t num_bytes_;
  std::shared_ptr<Gathered> gathered_;
};

}  // namespace tnt::comm
