#include "tnt/comm/collective/rma/buckets.hpp"

#include <utility>

namespace tnt::comm {

RmaBucketOperation::RmaBucketOperation(std::shared_ptr<RmaStream> stream, ArrivalReport report,
                                       RmaWork& work, std::string name)
    : BucketOperation(stream->abort_state, std::move(name)),
      pipeline_(std::move(stream)),
      arrival_report_(std::move(report)),
      work_(work) {}

bool RmaBucketOperation::try_begin() {
  arrival_report_.begin(current());
  pipeline_.begin(work_.num_blocks);
  return true;
}

Progress RmaBucketOperation::advance_step() {
  const bool has_moved = pipeline_.advance(work_, true);
  if (pipeline_.is_done(work_)) {
    pipeline_.end();
    return Progress::done;
  }
  if (has_moved) return Progress::advanced;
  arrival_report_.answer_if_waiting();
  return Progress::pending;
}

std::vector<int> RmaBucketOperation::missing() const {
  std::vector<int> members;
  if (has_begun()) work_.append_missing(members);
  return members;
}

std::string RmaBucketOperation::own_part() const {
  return awaits_this_rank() ? BucketOperation::own_part() : std::string(kAwaitsRoom);
}

RmaBucket::RmaBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report,
                     const MessagePattern& pattern, const BucketSpec& spec)
    : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
      work_(pipeline(), pattern, spec.dtype, spec.count) {}

std::byte* RmaBucket::input(std::uint64_t step) {
  return pipeline().stream().slot(step * work_.num_blocks);
}

const std::byte* RmaBucket::result(std::uint64_t step) const {
  // Blocks of a split exchange come back to where they were; a whole one is never cut.
  return pipeline().stream().slot(step * work_.num_blocks) + work_.schedule_of(0).result;
}

bool RmaBucket::has_made_call(int member) const {
  return has_reported(member) || pipeline().has_heard_of(member, work_);
}

HierarchicalBucket::HierarchicalBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report,
                                       HostLevel host, const MessagePattern& pattern,
                                       const BucketSpec& spec)
    : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
      host_(host),
      work_(pipeline(), {.dtype = spec.dtype, .op = ReduceOp::sum, .count = spec.count},
            std::move(host), pattern, {}) {}

std::byte* HierarchicalBucket::input(std::uint64_t step) {
  return host_.slots->data_of(host_.slots->open(step));
}

const std::byte* HierarchicalBucket::result(std::uint64_t step) const {
  return host_.slots->data_of(host_.slots->slot_of(step));
}

void HierarchicalBucket::announce(std::uint64_t step) {
  // Opened here if a bucket has no tensors, and so nothing to pack.
  host_.channel->say_packed(step, host_.slots->open(step));
  host_.channel->post(step);
}

bool HierarchicalBucket::has_made_call(int member) const {
  const HostLayout& hosts = host_.hosts;
  const bool is_exchanging = hosts.local_index_of(member) == host_.channel->rank();
  return has_reported(member) ||
         (is_exchanging && pipeline().has_heard_of(hosts.host_of(member), work_));
}

}  // namespace tnt::comm
