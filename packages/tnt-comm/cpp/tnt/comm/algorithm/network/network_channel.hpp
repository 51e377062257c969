#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/algorithm/network/schedule.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a network channel inside a segment.
struct NetworkLayout {
  std::size_t offset = 0;           ///< of the channel's bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first of num_notifications()
  AreaSizes areas;                  ///< of a window; multiples of 64
  std::size_t depth = 1;            ///< steps that may be under way at once

  std::size_t window_bytes() const { return areas.work + areas.landing; }
  std::size_t num_windows() const { return 2 * depth; }
  std::size_t num_bytes() const { return num_windows() * window_bytes(); }
  static std::size_t num_notifications(int num_members);
};

/// The windows of one independent stream of collectives among ranks that can
/// only put into each other's memory.
///
/// A stream is a sequence of *steps*, numbered from 0 on every rank alike. Step
/// s uses window s mod 2d (d: the depth) of every rank, and its notifications
/// carry s+1. A rank begins s only after it has finished s-d.
///
/// In a step of an allreduce, an allgather or a reduce_scatter every rank gets a
/// message that depends on every other rank's having begun it, empty messages
/// included. So when a rank has finished s-d, all have begun s-d, and hence
/// finished s-2d: nobody uses the window of s-2d any more, neither to read what
/// landed there nor to send from it, and step s may fill it, here and there.
///
/// Threads: one at a time.
class NetworkChannel {
 public:
  NetworkChannel(std::shared_ptr<Segment> segment, const NetworkLayout& layout);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const NetworkLayout& layout() const { return layout_; }

  /// The window of a step, as an offset in the segment and in memory.
  std::size_t window_offset(std::uint64_t step) const {
    return layout_.offset + step % layout_.num_windows() * layout_.window_bytes();
  }
  std::byte* window(std::uint64_t step) const { return segment_->local() + window_offset(step); }

  /// Places inside a window.
  Areas areas() const { return {0, layout_.areas.work}; }

  /// What the notifications of a step carry.
  static std::uint64_t value_of(std::uint64_t step) { return step + 1; }

 private:
  std::shared_ptr<Segment> segment_;  // operations may outlive the object they belong to
  NetworkLayout layout_;
};

/// Areas for which the longest piece of every split allreduce, an equal share
/// per member of an allgather and so on is about `work_bytes`.
AreaSizes window_areas(int num_members, std::size_t work_bytes);

}  // namespace tnt::comm
