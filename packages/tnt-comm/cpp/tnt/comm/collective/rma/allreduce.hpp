#pragma once

#include <cstddef>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/reduction_schedule.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of private arrays through the slots of a network channel.
///
/// Each block of the arrays, as long as the slots allow, is copied into the
/// work area, exchanged (see Exchange for rounds and bytes) and copied
/// out. With one block under way at a time a long array alternates between the
/// network and the reduction; with several, a block is on the network while
/// another one is reduced and a third one waits for the slowest rank, which is
/// the `pipelined` variant. Blocks: ceil(bytes / longest block).
class RmaAllreduce final : public RmaOperation {
 public:
  /// `out` may be `in`; both stay untouched by others until completion.
  RmaAllreduce(std::shared_ptr<AbortState> abort_state,
               std::shared_ptr<FingerprintCheck> fingerprint_check,
               std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
               const Exchange& exchange, bool is_pipelined, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  Combiner combiner() override { return {&reducer_, element_bytes_}; }
  void copy_out(std::uint64_t index) override;

 private:
  Range block(std::uint64_t index) const;  // bytes

  const std::byte* in_;
  std::byte* out_;
  std::size_t element_bytes_;
  std::size_t num_bytes_;
  std::size_t block_bytes_;
  Schedule full_;  // of all blocks but the last
  Schedule last_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
