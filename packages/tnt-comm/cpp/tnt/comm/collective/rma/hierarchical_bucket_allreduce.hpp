#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/bucket_staging.hpp"
#include "tnt/comm/collective/rma/arrival_report.hpp"
#include "tnt/comm/collective/rma/bucket_exchange.hpp"
#include "tnt/comm/collective/rma/host_layout.hpp"
#include "tnt/comm/collective/rma/partial_reducer.hpp"

namespace tnt::comm {

/// Allreduce of a bucket of ranks on several hosts, q on each.
///
/// The bucket is packed into a slot that the ranks of the host can reach.
/// Rank i of a host reduces chunk i (1/q) of all slots into registered
/// memory, exchanges it with the ranks i of the other hosts, and writes the
/// result to chunk i of all slots of the host. So each rank ends with the
/// whole result in its own slot, which can be lent. The steps overlap: a
/// block of the chunk is on the network while the next one is reduced and the
/// one before is written back.
///
/// See HierarchicalAllreduce for the order of the sum and for 16-bit floats.
class HierarchicalBucketAllreduce final : public BucketOperation {
 public:
  /// Elements of a bucket that one rank of a host exchanges.
  static Range chunk(std::size_t count, DType dtype, const HostLayout& hosts, int member);

  /// `slots`: of this host. `exchange`: among the ranks with the same place
  /// on their hosts, of a chunk of the partial type. `arrival_report`: of the group.
  HierarchicalBucketAllreduce(std::shared_ptr<AbortState> abort_state, BucketStaging slots,
                              BucketExchange exchange, ArrivalReport arrival_report,
                              const HostLayout& hosts, int member, DType dtype, std::size_t count,
                              std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;
  std::shared_ptr<DoubleBuffer> try_lend(std::uint64_t step, std::size_t& slot) override;

 protected:
  Progress do_advance() override;
  void announce(std::uint64_t step) override;
  void reset() override;
  std::vector<int> missing() const override;
  std::vector<int> awaited_members() const override;
  bool has_made_call(int member) const override;
  std::string own_part() const override;

 private:
  bool reduce_some();  // true if anything was done
  bool spread_some();  // likewise

  BucketStaging slots_;
  BucketExchange exchange_;
  ArrivalReport arrival_report_;
  HostLayout hosts_;
  int member_;
  DType dtype_;
  Range chunk_;  // elements of the bucket
  PartialReducer on_host_;
  bool has_begun_ = false;
  bool is_published_ = false;
  std::size_t num_reduced_ = 0;  // elements of the chunk
  std::size_t num_spread_ = 0;   // likewise
};

}  // namespace tnt::comm
