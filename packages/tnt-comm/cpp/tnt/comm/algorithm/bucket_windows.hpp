#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/algorithm/announcements.hpp"
#include "tnt/comm/algorithm/window_pair.hpp"
#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a bucket's memory inside a segment.
struct BucketLayout {
  std::size_t offset = 0;           ///< of the bucket's bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first of kNumNotifications
  std::size_t window_bytes = 0;     ///< multiple of 64

  static constexpr std::size_t kNumNotifications = 2;
  std::size_t num_bytes() const { return WindowPair::kNumWindows * window_bytes; }
};

/// The windows of a bucket on all ranks, and what an allreduce does with them.
/// The pieces are separate, so that algorithms can put something in between: a
/// two-level allreduce sends the reduced slice through the network before it
/// spreads it on the host.
///
/// A rank says which of its windows it has packed along with the post.
///
/// Windows need no counter of their own to be used again. If each rank reduces a
/// slice for all: of this rank's window of step s, rank r reads slice r and then
/// writes slice r, and announces `reduced` after both. So when all have announced it, nobody else
/// touches the window any more, and the next step may be packed into it.
/// If each reduces everything for itself (windows alternate): others may still read the window of
/// step s when this rank has finished s; but once it has finished s+1, everybody had posted s+1 and
/// hence finished s, and s+2 is the first step to use that window.
class BucketWindows {
 public:
  BucketWindows(std::shared_ptr<Segment> segment, const BucketLayout& layout, DType dtype,
                WindowPair::Order order);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }

  /// This rank's windows; see WindowPair for opening and lending.
  WindowPair& own() const { return *own_; }
  const std::shared_ptr<WindowPair>& shared_own() const { return own_; }
  std::byte* own_window(std::uint64_t step) const;

  void post(std::uint64_t step);
  bool have_all_posted(std::uint64_t step) const;
  std::vector<int> missing_posts(std::uint64_t step) const;

  /// The elements from `begin` on in the windows of all members, in their order;
  /// valid until the next call. When all have posted, and before this rank
  /// announces `reduced`.
  const std::vector<const std::byte*>& operands(std::uint64_t step, std::size_t begin);

  /// dst = tree over the elements `range` of all windows; `dst` may be the
  /// range's place in this rank's window. Likewise.
  void reduce(std::uint64_t step, Range range, std::byte* dst);

  /// Copies the elements from this rank's window into all others'. Likewise.
  void spread(std::uint64_t step, Range range);

  void publish_reduced(std::uint64_t step);
  bool have_all_reduced(std::uint64_t step) const;
  std::vector<int> missing_reductions(std::uint64_t step) const;

 private:
  std::size_t offset_of_window(int member, std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<WindowPair> own_;
  Announcements announcements_;
  WindowPair::Order order_;
  std::size_t stride_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
