#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

/// The order in which buckets use the slots of one channel, the same on all
/// members, although they may have packed their buckets in different orders.
///
/// The first member gives turns: to a bucket as soon as all members have posted
/// it. So no bucket waits for one that is not ready everywhere, and few slots,
/// which stay in the caches, serve many buckets.
///
/// Threads: post() of a bucket from one thread at a time; the rest, among all
/// buckets, from one thread at a time.
class BucketSequencer {
 public:
  static MemoryNeeds memory_needs(const ChannelLayout& layout, std::size_t num_buckets);

  /// The channel lies in the segment, the notifications begin at `first`.
  BucketSequencer(std::shared_ptr<Segment> segment, std::shared_ptr<StagedStream> stream,
                  NotificationId first, std::size_t num_buckets);

  const std::shared_ptr<StagedStream>& stream() const { return stream_; }

  /// This rank has packed the bucket for the step.
  void post(std::size_t bucket, std::uint64_t step);

  bool has_posted(int member, std::size_t bucket, std::uint64_t step) const;

  /// Whether the posted step of the bucket may use the channel now.
  bool is_turn(std::size_t bucket, std::uint64_t step);

  /// The bucket whose turn it is begins, and is done.
  void begin(const StagingPipeline& pipeline) { current_ = &pipeline; }
  void end(std::size_t bucket);

  /// Members whose next act the posted step of the bucket waits for.
  std::vector<int> missing(std::size_t bucket, std::uint64_t step) const;

 private:
  std::uint64_t turn_of(std::size_t bucket, std::uint64_t step);
  void announce(NotificationId counter, std::uint64_t value);
  bool have_all_posted(std::size_t bucket, std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<StagedStream> stream_;
  NotificationId first_;
  std::vector<std::uint64_t> turns_;  // by bucket, the last one that it has used; turns begin at 1
  std::uint64_t num_over_ = 0;
  std::vector<std::uint64_t> given_;  // by bucket, the last one that the first member has given it
  std::uint64_t num_given_ = 0;
  const StagingPipeline* current_ = nullptr;
};

}  // namespace tnt::comm
