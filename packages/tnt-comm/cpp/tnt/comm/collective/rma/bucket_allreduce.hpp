#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/rma/arrival_report.hpp"
#include "tnt/comm/collective/rma/bucket_exchange.hpp"

namespace tnt::comm {

/// Allreduce of a bucket among ranks that can only put into each other's
/// memory. The bucket is packed into registered memory, sent from there, and
/// comes back to the same place: packing is the only copy.
///
/// Messages that were sent may still be on their way when a rank has the
/// result, so the next step is packed into the other slot; see BucketExchange
/// for the one after that. A slot can therefore not be kept by a borrower.
class RmaBucketAllreduce final : public BucketOperation {
 public:
  static MemoryNeeds memory_needs(const MessagePattern& pattern, int size, DType dtype,
                                  std::size_t count);

  /// The memory begins at the offset and the notification. Of Senders::one.
  RmaBucketAllreduce(std::shared_ptr<AbortState> abort_state, std::shared_ptr<Segment> segment,
                     const MessagePattern& pattern, DType dtype, std::size_t count,
                     std::size_t offset, NotificationId notification, std::string name);

  std::byte* input(std::uint64_t step) override { return exchange_.input(step); }
  const std::byte* result(std::uint64_t step) const override { return exchange_.result(step); }

 protected:
  Progress do_advance() override;
  void reset() override { has_begun_ = false; }
  std::vector<int> missing() const override;
  std::vector<int> awaited_members() const override;
  bool has_made_call(int member) const override;
  std::string own_part() const override;

 private:
  ArrivalReport arrival_report_;
  BucketExchange exchange_;
  bool has_begun_ = false;
};

}  // namespace tnt::comm
