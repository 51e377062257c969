#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/rma/arrival_report.hpp"
#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"

namespace tnt::comm {

/// A bucket whose blocks cross a network: what starts its allreduce in every step.
///
/// Each bucket has slots and notifications of its own, so it waits for no other one.
class RmaBucketOperation : public BucketOperation {
 protected:
  /// `report`: of all members of the group. `work` belongs to the subclass.
  RmaBucketOperation(std::shared_ptr<RmaStream> stream, ArrivalReport report, RmaWork& work,
                     std::string name);

  const RmaPipeline& pipeline() const { return pipeline_; }
  bool has_reported(int member) const { return arrival_report_.is_present(member); }

  bool try_begin() final;
  Progress advance_step() final;
  std::vector<int> missing() const final;
  std::vector<int> awaited_members() const final { return members_holding_up(); }
  std::string own_part() const final;

 private:
  RmaPipeline pipeline_;
  ArrivalReport arrival_report_;
  RmaWork& work_;
};

/// RmaAllreduce of a bucket that is packed into registered memory: packing is the only copy.
class RmaBucket final : public RmaBucketOperation {
 public:
  RmaBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, const MessagePattern& pattern,
            const BucketSpec& spec);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;

 protected:
  bool has_made_call(int member) const override;

 private:
  RmaAllreduce work_;
};

/// HierarchicalAllreduce of a bucket that is packed where the ranks of the host reach it.
class HierarchicalBucket final : public RmaBucketOperation {
 public:
  HierarchicalBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, HostLevel host,
                     const MessagePattern& pattern, const BucketSpec& spec);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;

 protected:
  std::shared_ptr<DoubleBuffer> lendable() const override { return host_.slots; }
  void announce(std::uint64_t step) override;
  bool has_made_call(int member) const override;

 private:
  HostLevel host_;
  HierarchicalAllreduce work_;
};

}  // namespace tnt::comm
