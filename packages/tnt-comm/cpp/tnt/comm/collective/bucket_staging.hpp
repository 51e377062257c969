#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/announcements.hpp"
#include "tnt/comm/collective/double_buffer.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Size and place of a bucket's memory inside a segment.
struct BucketLayout {
  std::size_t offset = 0;           ///< of the bucket's bytes in each part; multiple of 64
  NotificationId notification = 0;  ///< the first of kNumNotifications
  std::size_t slot_bytes = 0;       ///< multiple of 64

  static constexpr std::size_t kNumNotifications = 2;
  std::size_t num_bytes() const { return DoubleBuffer::kNumSlots * slot_bytes; }
};

/// The slots of a bucket on all ranks, and what an allreduce does with them.
/// Its phases are separate, so that algorithms can put something in between: a
/// hierarchical allreduce sends the reduced chunk through the network before it
/// spreads it on the host.
///
/// A rank says which of its slots it has packed along with the post.
///
/// Slots need no counter of their own to be used again. If each rank reduces a
/// chunk for all: of this rank's slot of step s, rank r reads chunk r and then
/// writes chunk r, and announces `reduced` after both. So when all have announced it, nobody else
/// touches the slot any more, and the next step may be packed into it.
/// If each reduces everything for itself (slots alternate): others may still read the slot of
/// step s when this rank has finished s; but once it has finished s+1, everybody had posted s+1 and
/// hence finished s, and s+2 is the first step to use that slot.
class BucketStaging {
 public:
  BucketStaging(std::shared_ptr<Segment> segment, const BucketLayout& layout, DType dtype,
                DoubleBuffer::Order order);

  int rank() const { return segment_->rank(); }
  int size() const { return segment_->size(); }

  /// This rank's slots; see DoubleBuffer for opening and lending.
  DoubleBuffer& own() const { return *own_; }
  const std::shared_ptr<DoubleBuffer>& shared_own() const { return own_; }
  std::byte* own_slot(std::uint64_t step) const;

  void post(std::uint64_t step);
  bool have_all_posted(std::uint64_t step) const;
  std::vector<int> missing_posts(std::uint64_t step) const;

  /// The elements from `begin` on in the slots of all members, in their order;
  /// valid until the next call. When all have posted, and before this rank
  /// announces `reduced`.
  const std::vector<const std::byte*>& operands(std::uint64_t step, std::size_t begin);

  /// dst = tree over the elements `range` of all slots; `dst` may be the
  /// range's place in this rank's slot. Likewise.
  void reduce(std::uint64_t step, Range range, std::byte* dst);

  /// Copies the elements from this rank's slot into all others'. Likewise.
  void spread(std::uint64_t step, Range range);

  void publish_reduced(std::uint64_t step);
  bool have_all_reduced(std::uint64_t step) const;
  std::vector<int> missing_reductions(std::uint64_t step) const;

 private:
  std::size_t offset_of_slot(int member, std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<DoubleBuffer> own_;
  Announcements announcements_;
  DoubleBuffer::Order order_;
  std::size_t stride_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
