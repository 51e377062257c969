#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/gathered.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// Bytes of each member's place in the landing area of an allgather.
std::size_t allgather_share(int size, const AreaSizes& available);

/// What `member` does to give the `num_bytes` in its work area to everybody.
/// One round, n-1 messages; what member j sends lands at share * j.
Schedule allgather_schedule(int member, int size, std::size_t num_bytes, std::size_t share,
                            const Areas& areas);

/// Allgather of parts of different sizes; and gather, which the root alone takes.
///
/// The counts come with the fingerprint check; they decide the number of blocks, the
/// longest part's, and where everything goes. Per block every rank sends the
/// next share of its part to all others; with the end of its part reached,
/// only the notification.
///
/// Blocks: ceil(longest part / share), n-1 messages per rank in each; every
/// rank sends its part n-1 times, as it must be received.
class RmaAllgather final : public RmaOperation {
 public:
  /// Reads `in` until completion, and fills `gathered` where it is taken.
  RmaAllgather(std::shared_ptr<AbortState> abort_state,
               std::shared_ptr<FingerprintCheck> fingerprint_check,
               std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
               std::shared_ptr<GatherInput> in, std::shared_ptr<Gathered> gathered);

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;

 private:
  Range block(std::uint64_t index, int member) const;  // of the result

  std::shared_ptr<GatherInput> in_;
  std::shared_ptr<Gathered> gathered_;
  std::size_t share_;
  std::vector<Schedule> schedules_;  // one per block under way
};

}  // namespace tnt::comm
