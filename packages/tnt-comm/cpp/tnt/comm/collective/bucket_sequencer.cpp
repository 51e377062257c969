#include "tnt/comm/collective/bucket_sequencer.hpp"

#include <utility>

namespace tnt::comm {
namespace {

constexpr int kSequencerMember = 0;

// Of each bucket.
constexpr std::size_t kPosted = 0;
constexpr std::size_t kTurn = 1;
constexpr std::size_t kNumCounters = 2;

std::size_t counter(std::size_t bucket, std::size_t which) {
  return kNumCounters * bucket + which;
}

}  // namespace

MemoryNeeds BucketSequencer::memory_needs(const ChannelLayout& layout, std::size_t num_buckets) {
  return {layout.num_bytes(), kNumCounters * num_buckets};
}

BucketSequencer::BucketSequencer(std::shared_ptr<Segment> segment, const ChannelLayout& layout,
                                 NotificationId first, std::size_t num_buckets)
    : state_(std::make_shared<ChannelState>(ChannelState{Channel(segment, layout)})),
      announcements_(std::move(segment), first),
      turns_(num_buckets),
      given_(num_buckets) {}

void BucketSequencer::post(std::size_t bucket, std::uint64_t step) {
  announcements_.announce(counter(bucket, kPosted), step + 1);
}

bool BucketSequencer::has_posted(int member, std::size_t bucket, std::uint64_t step) const {
  return announcements_.newest_of(member, counter(bucket, kPosted)) > step;
}

bool BucketSequencer::is_turn(std::size_t bucket, std::uint64_t step) {
  // Only who gives turns has to look while another bucket is at work.
  const bool is_giver = state_->channel.rank() == kSequencerMember;
  if (current_ != nullptr && (!is_giver || given_[bucket] != turns_[bucket])) return false;
  return turn_of(bucket, step) == num_over_ + 1;
}

// 0 if it has none yet.
std::uint64_t BucketSequencer::turn_of(std::size_t bucket, std::uint64_t step) {
  std::uint64_t& given = given_[bucket];
  if (state_->channel.rank() != kSequencerMember) {
    given = announcements_.newest_of(kSequencerMember, counter(bucket, kTurn));
  } else if (given == turns_[bucket] &&
             announcements_.have_all(counter(bucket, kPosted), step + 1)) {
    given = ++num_given_;
    announcements_.announce(counter(bucket, kTurn), given);
  }
  return given == turns_[bucket] ? 0 : given;
}

void BucketSequencer::end(std::size_t bucket) {
  turns_[bucket] = ++num_over_;
  current_ = nullptr;
}

std::vector<int> BucketSequencer::missing(std::size_t bucket, std::uint64_t step) const {
  const auto missing = announcements_.missing(counter(bucket, kPosted), step + 1);
  if (!missing.empty()) return missing;
  if (current_ != nullptr) return current_->missing();
  if (state_->channel.rank() != kSequencerMember && given_[bucket] == turns_[bucket])
    return {kSequencerMember};
  return {};
}

}  // namespace tnt::comm
