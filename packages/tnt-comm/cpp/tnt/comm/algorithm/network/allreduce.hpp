#pragma once

#include <cstddef>

#include "tnt/comm/algorithm/network/network_operation.hpp"
#include "tnt/comm/algorithm/network/reduction_schedule.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of private arrays through the windows of a network channel.
///
/// Per step a *piece* of the arrays, as long as the windows allow, is copied
/// into the work area, exchanged (see Exchange for rounds and bytes) and copied
/// out. With one step under way at a time a long array alternates between the
/// network and the reduction; with several, a piece is on the network while
/// another one is reduced and a third one waits for the slowest rank, which is
/// the `pipelined` variant. Steps: ceil(bytes / longest piece).
class NetworkAllreduce final : public NetworkOperation {
 public:
  /// `out` may be `in`; both stay untouched by others until completion.
  NetworkAllreduce(std::shared_ptr<Health> health, std::shared_ptr<Agreement> agreement,
                   std::shared_ptr<NetworkStream> stream, const Descriptor& descriptor,
                   const Exchange& exchange, bool is_pipelined, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  Combiner combiner() override { return {&reducer_, element_bytes_}; }
  void copy_out(std::uint64_t index) override;

 private:
  Range piece(std::uint64_t index) const;  // bytes

  const std::byte* in_;
  std::byte* out_;
  std::size_t element_bytes_;
  std::size_t num_bytes_;
  std::size_t piece_bytes_;
  Schedule full_;  // of all pieces but the last
  Schedule last_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
