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

BucketSequencer::BucketSequencer(std::shared_ptr<Segment> segment,
                                 std::shared_ptr<StagedStream> stream, NotificationId first,
                                 std::size_t num_buckets)
    : segment_(std::move(segment)),
      stream_(std::move(stream)),
      first_(first),
      turns_(num_buckets),
      given_(num_buckets) {}

// Tells all other members.
void BucketSequencer::announce(NotificationId counter, std::uint64_t value) {
  // Starting with the next rank spreads the load when all announce at once.
  for (int distance = 1; distance < segment_->size(); ++distance) {
    segment_->notify((segment_->rank() + distance) % segment_->size(), first_ + counter, value);
  }
}

void BucketSequencer::post(std::size_t bucket, std::uint64_t step) {
  announce(counter(bucket, kPosted), step + 1);
}

bool BucketSequencer::has_posted(int member, std::size_t bucket, std::uint64_t step) const {
  return segment_->poll(member, first_ + counter(bucket, kPosted)) > step;
}

bool BucketSequencer::have_all_posted(std::size_t bucket, std::uint64_t step) const {
  for (int member = 0; member < segment_->size(); ++member) {
    if (member != segment_->rank() && !has_posted(member, bucket, step)) return false;
  }
  return true;
}

bool BucketSequencer::is_turn(std::size_t bucket, std::uint64_t step) {
  // Only who gives turns has to look while another bucket is at work.
  const bool is_giver = segment_->rank() == kSequencerMember;
  if (current_ != nullptr && (!is_giver || given_[bucket] != turns_[bucket])) return false;
  return turn_of(bucket, step) == num_over_ + 1;
}

// 0 if it has none yet.
std::uint64_t BucketSequencer::turn_of(std::size_t bucket, std::uint64_t step) {
  std::uint64_t& given = given_[bucket];
  if (segment_->rank() != kSequencerMember) {
    given = segment_->poll(kSequencerMember, first_ + counter(bucket, kTurn));
  } else if (given == turns_[bucket] && have_all_posted(bucket, step)) {
    given = ++num_given_;
    announce(counter(bucket, kTurn), given);
  }
  return given == turns_[bucket] ? 0 : given;
}

void BucketSequencer::end(std::size_t bucket) {
  turns_[bucket] = ++num_over_;
  current_ = nullptr;
}

std::vector<int> BucketSequencer::missing(std::size_t bucket, std::uint64_t step) const {
  std::vector<int> members;
  for (int member = 0; member < segment_->size(); ++member) {
    if (member != segment_->rank() && !has_posted(member, bucket, step)) members.push_back(member);
  }
  if (!members.empty()) return members;
  if (current_ != nullptr) return current_->missing();
  if (segment_->rank() != kSequencerMember && given_[bucket] == turns_[bucket]) {
    return {kSequencerMember};
  }
  return {};
}

}  // namespace tnt::comm
