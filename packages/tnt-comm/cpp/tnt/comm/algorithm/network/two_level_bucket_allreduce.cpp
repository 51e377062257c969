#include "tnt/comm/algorithm/network/two_level_bucket_allreduce.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/algorithm/network/stall.hpp"
#include "tnt/comm/algorithm/slices.hpp"

namespace tnt::comm {
namespace {

// What one call of step() reduces, and what it spreads, at most.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

}  // namespace

Range TwoLevelBucketAllreduce::slice(std::size_t count, DType dtype, const HostLayout& hosts,
                                     int member) {
  return slice_of(count, dtype, hosts.members_per_host, hosts.local_index_of(member));
}

TwoLevelBucketAllreduce::TwoLevelBucketAllreduce(std::shared_ptr<Health> health,
                                                 BucketWindows windows, BucketExchange exchange,
                                                 RollCall roll_call, const HostLayout& hosts,
                                                 int member, DType dtype, std::size_t count,
                                                 std::string name)
    : BucketOperation(std::move(health), std::move(name)),
      windows_(std::move(windows)),
      exchange_(std::move(exchange)),
      roll_call_(std::move(roll_call)),
      hosts_(hosts),
      member_(member),
      dtype_(dtype),
      slice_(slice(count, dtype, hosts, member)),
      on_host_(dtype, ReduceOp::sum, static_cast<std::size_t>(hosts.members_per_host)) {}

std::byte* TwoLevelBucketAllreduce::input(std::uint64_t step) {
  return windows_.own().data_of(windows_.own().open(step));
}

const std::byte* TwoLevelBucketAllreduce::result(std::uint64_t step) const {
  return windows_.own_window(step);
}

std::shared_ptr<WindowPair> TwoLevelBucketAllreduce::try_lend(std::uint64_t step,
                                                              std::size_t& window) {
  if (!windows_.own().try_lend(step)) return nullptr;
  window = windows_.own().window_of(step);
  return windows_.shared_own();
}

void TwoLevelBucketAllreduce::announce(std::uint64_t step) {
  windows_.own().open(step);  // a bucket without tensors has nothing to pack
  windows_.post(step);
}

void TwoLevelBucketAllreduce::reset() {
  has_begun_ = is_published_ = false;
  num_reduced_ = num_spread_ = 0;
}

Progress TwoLevelBucketAllreduce::step() {
  if (awaits_this_rank()) return Progress::pending;
  if (!has_begun_) {
    has_begun_ = true;
    roll_call_.begin(current());
    exchange_.begin(current());
  }
  bool has_moved = reduce_some();
  has_moved |= exchange_.advance();
  has_moved |= spread_some();
  if (exchange_.is_done() && num_spread_ == slice_.size() && !is_published_) {
    is_published_ = has_moved = true;
    windows_.publish_reduced(current());
  }
  if (is_published_ && windows_.have_all_reduced(current())) return Progress::done;
  if (has_moved) return Progress::advanced;
  roll_call_.answer_if_waiting();
  return Progress::pending;
}

bool TwoLevelBucketAllreduce::reduce_some() {
  if (exchange_.num_pushed() == exchange_.num_pieces()) return false;
  if (!windows_.have_all_posted(current())) return false;
  const DType partial = PartialReducer::partial_type(dtype_);
  const Range piece = exchange_.piece(exchange_.num_pushed());
  const std::size_t length = std::min(piece.end - num_reduced_, kBytesPerTurn / size_of(partial));
  const auto& operands = windows_.operands(current(), slice_.begin + num_reduced_);
  on_host_.reduce(exchange_.input(current()) + num_reduced_ * size_of(partial), operands.data(),
                  operands.size(), length);
  num_reduced_ += length;
  if (num_reduced_ == piece.end) exchange_.push();
  return true;
}

bool TwoLevelBucketAllreduce::spread_some() {
  if (exchange_.num_done() == 0) return false;
  const std::size_t available = exchange_.piece(exchange_.num_done() - 1).end;
  if (num_spread_ == available) return false;
  const DType partial = PartialReducer::partial_type(dtype_);
  const std::size_t length = std::min(available - num_spread_, kBytesPerTurn / size_of(partial));
  const Range elements{slice_.begin + num_spread_, slice_.begin + num_spread_ + length};
  on_host_.round(windows_.own_window(current()) + elements.begin * size_of(dtype_),
                 exchange_.result(current()) + num_spread_ * size_of(partial), length);
  windows_.spread(current(), elements);
  num_spread_ += length;
  return true;
}

std::vector<int> TwoLevelBucketAllreduce::missing() const {
  std::vector<int> members;
  if (!has_begun_) return members;
  const int host = hosts_.host_of(member_);
  const auto append_local = [&](const std::vector<int>& local_ranks) {
    for (const int local_rank : local_ranks) {
      members.push_back(hosts_.member_at(host, local_rank));
    }
  };
  if (exchange_.num_pushed() < exchange_.num_pieces()) {
    append_local(windows_.missing_posts(current()));
  }
  std::vector<int> others;
  exchange_.append_missing(others);
  for (const int other : others) {
    members.push_back(hosts_.member_at(other, hosts_.local_index_of(member_)));
  }
  if (is_published_) append_local(windows_.missing_reductions(current()));
  return members;
}

std::vector<int> TwoLevelBucketAllreduce::awaited_members() const {
  return holding_up(*health(), missing(), [this](int member) { return has_made_call(member); });
}

bool TwoLevelBucketAllreduce::has_made_call(int member) const {
  if (roll_call_.is_present(member)) return true;
  if (hosts_.local_index_of(member) == hosts_.local_index_of(member_)) {
    return exchange_.has_begun(hosts_.host_of(member));
  }
  return false;
}

std::string TwoLevelBucketAllreduce::own_part() const {
  if (awaits_this_rank()) return BucketOperation::own_part();
  return "this rank itself: its messages wait for room in the queues of the network";
}

}  // namespace tnt::comm
