#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/hierarchical_allreduce.hpp"

namespace tnt::comm {

/// A bucket whose blocks cross a network: what starts its allreduce in every step.
///
/// Each bucket has slots and notifications of its own, so it waits for no other one.
class RmaBucketOperation : public HostBucket {
 protected:
  /// `report`: of all members of the group. `work` belongs to the subclass.
  RmaBucketOperation(std::shared_ptr<RmaStream> stream, ArrivalReport report, RmaWork& work,
                     std::string name)
      : HostBucket(stream->abort_state, std::move(name)),
        pipeline_(std::move(stream)),
        arrival_report_(std::move(report)),
        work_(work) {}

  const RmaPipeline& pipeline() const { return pipeline_; }
  bool has_reported(int member) const { return arrival_report_.is_present(member); }

  bool try_begin() final {
    arrival_report_.begin(current());
    pipeline_.begin(work_.num_blocks);
    return true;
  }
  Progress advance_step() final {
    const Progress progress = pipeline_.advance(work_, true);
    if (progress == Progress::pending) arrival_report_.answer_if_waiting();
    return progress;
  }
  std::vector<int> missing() const final {
    std::vector<int> members;
    if (has_begun()) work_.append_missing(members);
    for (int& member : members) member = group_member(member);
    return members;
  }
  /// The member of the group that the work calls by that number.
  virtual int group_member(int number) const { return number; }
  std::vector<int> awaited_members() const final { return members_holding_up(); }
  std::string own_part() const final {
    return awaits_this_rank() ? HostBucket::own_part() : std::string(kAwaitsRoom);
  }

 private:
  RmaPipeline pipeline_;
  ArrivalReport arrival_report_;
  RmaWork& work_;
};

/// RmaAllreduce of a bucket that is packed into registered memory: packing is the only copy.
class RmaBucket : public RmaBucketOperation {
 public:
  RmaBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, const MessagePattern& pattern,
            const BucketSpec& spec)
      : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
        work_(pipeline(), pattern, spec.dtype, spec.count) {}

  std::byte* input(std::uint64_t step) override {
    return pipeline().stream().slot(step * work_.num_blocks);
  }
  const std::byte* result(std::uint64_t step) const override {
    // Blocks of a split exchange come back to where they were; a whole one is never cut.
    return pipeline().stream().slot(step * work_.num_blocks) + work_.schedule_of(0).result;
  }
  HostMemory memory() const override { return pipeline().stream().slots(); }

 protected:
  bool has_made_call(int member) const override {
    return has_reported(member) || has_heard_of(member);
  }
  bool has_heard_of(int number) const { return pipeline().has_heard_of(number, work_); }

 private:
  RmaAllreduce work_;
};

/// The same among the ranks that have one place on all hosts, for what each has of its host's sum.
class ChunkBucket final : public RmaBucket {
 public:
  ChunkBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, HostLayout hosts, int place,
              const MessagePattern& pattern, const BucketSpec& spec)
      : RmaBucket(std::move(stream), std::move(report), pattern, spec),
        hosts_(std::move(hosts)),
        place_(place) {}

 protected:
  int group_member(int host) const override { return hosts_.member_at(host, place_); }
  bool has_made_call(int member) const override {
    const bool is_exchanging = hosts_.local_index_of(member) == place_;
    return has_reported(member) || (is_exchanging && has_heard_of(hosts_.host_of(member)));
  }

 private:
  HostLayout hosts_;
  int place_;
};

/// HierarchicalAllreduce of a bucket that is packed where the ranks of the host reach it.
class HierarchicalBucket final : public RmaBucketOperation {
 public:
  HierarchicalBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, HostLevel host,
                     const MessagePattern& pattern, const BucketSpec& spec)
      : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
        work_(pipeline(), {.dtype = spec.dtype, .op = ReduceOp::sum, .count = spec.count},
              std::move(host), pattern, {}) {}

  std::byte* input(std::uint64_t step) override { return slots().data_of(slots().open(step)); }
  const std::byte* result(std::uint64_t step) const override {
    return slots().data_of(slots().slot_of(step));
  }
  HostMemory memory() const override { return slots().unlent_memory(); }

 protected:
  std::shared_ptr<DoubleBuffer> lendable() const override { return work_.host().slots; }
  void announce(std::uint64_t step) override {
    // Opened here if a bucket has no tensors, and so nothing to pack.
    ring().say_packed(step, slots().open(step));
    ring().post(step);
  }
  bool has_made_call(int member) const override {
    const HostLayout& hosts = work_.host().hosts;
    const bool is_exchanging = hosts.local_index_of(member) == ring().rank();
    return has_reported(member) ||
           (is_exchanging && pipeline().has_heard_of(hosts.host_of(member), work_));
  }

 private:
  DoubleBuffer& slots() const { return *work_.host().slots; }
  SlotRing& ring() const { return *work_.host().ring; }

  HierarchicalAllreduce work_;
};

}  // namespace tnt::comm
