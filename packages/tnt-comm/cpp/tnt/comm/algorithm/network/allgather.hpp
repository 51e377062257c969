#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/algorithm/gathered.hpp"
#include "tnt/comm/algorithm/network/network_operation.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

/// Bytes of each member's place in the landing area of an allgather.
std::size_t allgather_share(int size, const AreaSizes& available);

/// What `member` does to give the `num_bytes` in its work area to everybody.
/// One round, n-1 messages; what member j sends lands at share * j.
Schedule allgather_schedule(int member, int size, std::size_t num_bytes, std::size_t share,
                            const Areas& areas);

/// Allgather of blocks of different sizes.
///
/// The counts come with the agreement; they decide the number of steps, the
/// longest block's, and where everything goes. Per step every rank sends the
/// next share of its block to all others; with the end of its block reached,
/// only the notification.
///
/// Steps: ceil(longest block / share), n-1 messages per rank in each; every
/// rank sends its block n-1 times, as it must be received.
class NetworkAllgather final : public NetworkOperation {
 public:
  /// Reads `in` until completion, or owns the block.
  NetworkAllgather(std::shared_ptr<Health> health, std::shared_ptr<Agreement> agreement,
                   std::shared_ptr<NetworkStream> stream, const Descriptor& descriptor,
                   GatherInput in, std::shared_ptr<Gathered> gathered);

 protected:
  void on_agreement() override;
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;

 private:
  Range piece(std::uint64_t index, int member) const;  // of the result

  GatherInput in_;
  std::shared_ptr<Gathered> gathered_;
  std::size_t share_;
  std::vector<Schedule> schedules_;  // one per step under way
};

}  // namespace tnt::comm
