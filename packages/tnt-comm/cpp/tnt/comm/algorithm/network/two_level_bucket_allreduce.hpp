#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/bucket_operation.hpp"
#include "tnt/comm/algorithm/bucket_windows.hpp"
#include "tnt/comm/algorithm/network/bucket_exchange.hpp"
#include "tnt/comm/algorithm/network/host_layout.hpp"
#include "tnt/comm/algorithm/network/partial_reducer.hpp"
#include "tnt/comm/algorithm/network/roll_call.hpp"

namespace tnt::comm {

/// Allreduce of a bucket of ranks on several hosts, q on each.
///
/// The bucket is packed into a window that the ranks of the host can reach.
/// Rank i of a host reduces slice i (1/q) of all windows into registered
/// memory, exchanges it with the ranks i of the other hosts, and writes the
/// result to slice i of all windows of the host. So each rank ends with the
/// whole result in its own window, which can be lent. The steps overlap: a
/// piece of the slice is on the network while the next one is reduced and the
/// one before is written back.
///
/// See TwoLevelAllreduce for the order of the sum and for 16-bit floats.
class TwoLevelBucketAllreduce final : public BucketOperation {
 public:
  /// Elements of a bucket that one rank of a host exchanges.
  static Range slice(std::size_t count, DType dtype, const HostLayout& hosts, int member);

  /// `windows`: of this host. `exchange`: among the ranks with the same place
  /// on their hosts, of a slice of the partial type. `roll_call`: of the group.
  TwoLevelBucketAllreduce(std::shared_ptr<Health> health, BucketWindows windows,
                          BucketExchange exchange, RollCall roll_call, const HostLayout& hosts,
                          int member, DType dtype, std::size_t count, std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;
  std::shared_ptr<WindowPair> try_lend(std::uint64_t step, std::size_t& window) override;

 protected:
  Progress step() override;
  void announce(std::uint64_t step) override;
  void reset() override;
  std::vector<int> missing() const override;
  std::vector<int> awaited_members() const override;
  bool has_made_call(int member) const override;
  std::string own_part() const override;

 private:
  bool reduce_some();  // true if anything was done
  bool spread_some();  // likewise

  BucketWindows windows_;
  BucketExchange exchange_;
  RollCall roll_call_;
  HostLayout hosts_;
  int member_;
  DType dtype_;
  Range slice_;  // elements of the bucket
  PartialReducer on_host_;
  bool has_begun_ = false;
  bool is_published_ = false;
  std::size_t num_reduced_ = 0;  // elements of the slice
  std::size_t num_spread_ = 0;   // likewise
};

}  // namespace tnt::comm
