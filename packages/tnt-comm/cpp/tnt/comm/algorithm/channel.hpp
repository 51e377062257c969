#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/algorithm/announcements.hpp"
#include "tnt/comm/algorithm/descriptor.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a channel inside a segment.
struct ChannelLayout {
  std::size_t offset = 0;           ///< of the channel's bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first of kNumNotifications
  std::size_t window_bytes = 0;     ///< multiple of 64
  std::size_t depth = 1;            ///< steps that may be posted and unfinished

  static constexpr std::size_t kNumNotifications = 2;
  std::size_t num_windows() const { return 2 * depth; }
  std::size_t num_bytes(std::size_t num_members) const;
};

/// One independent stream of collectives of a group.
///
/// A channel is a sequence of *steps*, numbered from 0 on every rank alike. In
/// step s a rank
///   1. copies its input into its window s mod 2d (d: the depth) and *posts* s,
///   2. waits until all others have posted s; their windows can be read now,
///   3. reduces what is its to reduce and says so (`reduced`),
///   4. waits for what the others reduce and copies it: s is *finished*.
///
/// Windows need no counter of their own to be reused. A rank posts s only
/// after it has finished s-d. So when it has finished step s-d, everybody had
/// posted s-d and hence finished s-2d: nobody reads the window of s-2d any
/// more, which is the one that step s is about to fill.
///
/// Threads: one at a time, except posting, which may come from another thread.
class Channel {
 public:
  Channel(std::shared_ptr<Segment> segment, const ChannelLayout& layout);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  std::size_t window_bytes() const { return layout_.window_bytes; }
  std::size_t depth() const { return layout_.depth; }

  std::byte* window(std::uint64_t step) { return segment_->local() + window_offset(step); }
  const std::byte* window_of(int member, std::uint64_t step) const;

  /// To be called before the post() of the same step.
  void describe(std::uint64_t step, const Descriptor& descriptor);
  Descriptor descriptor_of(int member, std::uint64_t step) const;

  void post(std::uint64_t step) { announcements_.announce(0, step + 1); }
  void publish_reduced(std::uint64_t step) { announcements_.announce(1, step + 1); }
  bool have_all_posted(std::uint64_t step) const { return announcements_.have_all(0, step + 1); }
  bool have_all_reduced(std::uint64_t step) const { return announcements_.have_all(1, step + 1); }

  /// Members that have not posted (not reduced) the step, this rank aside.
  std::vector<int> missing_posts(std::uint64_t step) const {
    return announcements_.missing(0, step + 1);
  }
  std::vector<int> missing_reductions(std::uint64_t step) const {
    return announcements_.missing(1, step + 1);
  }

 private:
  std::size_t descriptor_offset(int member, std::uint64_t step) const;
  std::size_t window_offset(std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  ChannelLayout layout_;
  Announcements announcements_;
};

}  // namespace tnt::comm
