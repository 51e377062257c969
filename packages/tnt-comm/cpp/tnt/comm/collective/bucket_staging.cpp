#include "tnt/comm/collective/bucket_staging.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kPosted = 0;
constexpr std::size_t kReduced = 1;

// The last bit says which slot it is.
std::uint64_t post_value(std::uint64_t step, std::size_t slot) {
  return 2 * (step + 1) + slot;
}

}  // namespace

BucketStaging::BucketStaging(std::shared_ptr<Segment> segment, const BucketLayout& layout,
                             DType dtype, DoubleBuffer::Order order)
    : segment_(std::move(segment)),
      own_(std::make_shared<DoubleBuffer>(segment_, layout.offset, layout.slot_bytes, order)),
      announcements_(segment_, layout.notification),
      order_(order),
      stride_(size_of(dtype)),
      sources_(static_cast<std::size_t>(segment_->size())),
      reducer_(dtype, ReduceOp::sum, sources_.size()) {}

std::byte* BucketStaging::own_slot(std::uint64_t step) const {
  return own_->data_of(own_->slot_of(step));
}

std::size_t BucketStaging::offset_of_slot(int member, std::uint64_t step) const {
  // Slots that take turns are the same everywhere, and a fast member may have
  // announced the next one already.
  const bool is_known = member == rank() || order_ == DoubleBuffer::Order::alternate;
  const std::size_t slot =
      is_known ? own_->slot_of(step) : announcements_.newest_of(member, kPosted) % 2;
  return own_->offset_of(slot);
}

void BucketStaging::post(std::uint64_t step) {
  announcements_.announce(kPosted, post_value(step, own_->slot_of(step)));
}

bool BucketStaging::have_all_posted(std::uint64_t step) const {
  return announcements_.have_all(kPosted, post_value(step, 0));
}

std::vector<int> BucketStaging::missing_posts(std::uint64_t step) const {
  return announcements_.missing(kPosted, post_value(step, 0));
}

const std::vector<const std::byte*>& BucketStaging::operands(std::uint64_t step,
                                                             std::size_t begin) {
  for (int member = 0; member < size(); ++member) {
    const std::byte* part = member == rank() ? segment_->local() : segment_->peer(member);
    sources_[static_cast<std::size_t>(member)] =
        part + offset_of_slot(member, step) + begin * stride_;
  }
  return sources_;
}

void BucketStaging::reduce(std::uint64_t step, Range range, std::byte* dst) {
  operands(step, range.begin);
  reducer_.reduce(dst, sources_.data(), sources_.size(), range.size());
}

void BucketStaging::spread(std::uint64_t step, Range range) {
  const std::size_t begin = range.begin * stride_;
  const std::size_t from = offset_of_slot(rank(), step) + begin;
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) continue;
    segment_->put(member, offset_of_slot(member, step) + begin, from, range.size() * stride_);
  }
}

void BucketStaging::publish_reduced(std::uint64_t step) {
  announcements_.announce(kReduced, step + 1);
}

bool BucketStaging::have_all_reduced(std::uint64_t step) const {
  return announcements_.have_all(kReduced, step + 1);
}

std::vector<int> BucketStaging::missing_reductions(std::uint64_t step) const {
  return announcements_.missing(kReduced, step + 1);
}

}  // namespace tnt::comm
