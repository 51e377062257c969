#include "tnt/comm/collective/rma/hierarchical_bucket_allreduce.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/collective/chunks.hpp"
#include "tnt/comm/collective/rma/stall.hpp"

namespace tnt::comm {
namespace {

// What one call of step() reduces, and what it spreads, at most.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

}  // namespace

Range HierarchicalBucketAllreduce::chunk(std::size_t count, DType dtype, const HostLayout& hosts,
                                         int member) {
  return chunk_of(count, dtype, hosts.members_per_host, hosts.local_index_of(member));
}

HierarchicalBucketAllreduce::HierarchicalBucketAllreduce(
    std::shared_ptr<AbortState> abort_state, BucketStaging slots, BucketExchange exchange,
    ArrivalReport arrival_report, const HostLayout& hosts, int member, DType dtype,
    std::size_t count, std::string name)
    : BucketOperation(std::move(abort_state), std::move(name)),
      slots_(std::move(slots)),
      exchange_(std::move(exchange)),
      arrival_report_(std::move(arrival_report)),
      hosts_(hosts),
      member_(member),
      dtype_(dtype),
      chunk_(chunk(count, dtype, hosts, member)),
      on_host_(dtype, ReduceOp::sum, static_cast<std::size_t>(hosts.members_per_host)) {}

std::byte* HierarchicalBucketAllreduce::input(std::uint64_t step) {
  return slots_.own().data_of(slots_.own().open(step));
}

const std::byte* HierarchicalBucketAllreduce::result(std::uint64_t step) const {
  return slots_.own_slot(step);
}

std::shared_ptr<DoubleBuffer> HierarchicalBucketAllreduce::try_lend(std::uint64_t step,
                                                                    std::size_t& slot) {
  if (!slots_.own().try_lend(step)) return nullptr;
  slot = slots_.own().slot_of(step);
  return slots_.shared_own();
}

void HierarchicalBucketAllreduce::announce(std::uint64_t step) {
  slots_.own().open(step);  // a bucket without tensors has nothing to pack
  slots_.post(step);
}

void HierarchicalBucketAllreduce::reset() {
  has_begun_ = is_published_ = false;
  num_reduced_ = num_spread_ = 0;
}

Progress HierarchicalBucketAllreduce::do_advance() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    has_begun_ = true;
    arrival_report_.begin(current());
    exchange_.begin(current());
  }
  bool has_moved = reduce_some();
  has_moved |= exchange_.advance();
  has_moved |= spread_some();
  if (exchange_.is_done() && num_spread_ == chunk_.size() && !is_published_) {
    is_published_ = has_moved = true;
    slots_.publish_reduced(current());
  }
  if (is_published_ && slots_.have_all_reduced(current())) return Progress::done;
  if (has_moved) return Progress::advanced;
  arrival_report_.answer_if_waiting();
  return Progress::pending;
}

bool HierarchicalBucketAllreduce::reduce_some() {
  if (exchange_.num_pushed() == exchange_.num_blocks()) return false;
  if (!slots_.have_all_posted(current())) return false;
  const DType partial = accumulator_of(dtype_);
  const Range block = exchange_.block(exchange_.num_pushed());
  const std::size_t length = std::min(block.end - num_reduced_, kBytesPerTurn / size_of(partial));
  const auto& operands = slots_.operands(current(), chunk_.begin + num_reduced_);
  on_host_.reduce(exchange_.input(current()) + num_reduced_ * size_of(partial), operands.data(),
                  operands.size(), length);
  num_reduced_ += length;
  if (num_reduced_ == block.end) exchange_.push();
  return true;
}

bool HierarchicalBucketAllreduce::spread_some() {
  if (exchange_.num_done() == 0) return false;
  const std::size_t available = exchange_.block(exchange_.num_done() - 1).end;
  if (num_spread_ == available) return false;
  const DType partial = accumulator_of(dtype_);
  const std::size_t length = std::min(available - num_spread_, kBytesPerTurn / size_of(partial));
  const Range elements{chunk_.begin + num_spread_, chunk_.begin + num_spread_ + length};
  on_host_.round(slots_.own_slot(current()) + elements.begin * size_of(dtype_),
                 exchange_.result(current()) + num_spread_ * size_of(partial), length);
  slots_.spread(current(), elements);
  num_spread_ += length;
  return true;
}

std::vector<int> HierarchicalBucketAllreduce::missing() const {
  std::vector<int> members;
  if (!has_begun_) return members;
  const int host = hosts_.host_of(member_);
  const auto append_local = [&](const std::vector<int>& local_ranks) {
    for (const int local_rank : local_ranks) {
      members.push_back(hosts_.member_at(host, local_rank));
    }
  };
  if (exchange_.num_pushed() < exchange_.num_blocks()) {
    append_local(slots_.missing_posts(current()));
  }
  std::vector<int> others;
  exchange_.append_missing(others);
  for (const int other : others) {
    members.push_back(hosts_.member_at(other, hosts_.local_index_of(member_)));
  }
  if (is_published_) append_local(slots_.missing_reductions(current()));
  return members;
}

std::vector<int> HierarchicalBucketAllreduce::awaited_members() const {
  return holding_up(*abort_state(), missing(),
                    [this](int member) { return has_made_call(member); });
}

bool HierarchicalBucketAllreduce::has_made_call(int member) const {
  if (arrival_report_.is_present(member)) return true;
  if (hosts_.local_index_of(member) == hosts_.local_index_of(member_)) {
    return exchange_.has_begun(hosts_.host_of(member));
  }
  return false;
}

std::string HierarchicalBucketAllreduce::own_part() const {
  if (awaits_this_rank()) return BucketOperation::own_part();
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
