#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace tnt::comm {
namespace {

constexpr std::size_t kAlignment = 64;

// Null if the segment has no such range.
std::byte* place_in(const UcxSegment& segment, std::uint64_t offset, std::size_t num_bytes) {
  if (offset > segment.num_bytes || num_bytes > segment.num_bytes - offset) return nullptr;
  for (const auto& [begin, end, target] : segment.redirections) {
    if (offset >= begin && offset + num_bytes <= end) return target + (offset - begin);
  }
  return segment.data + offset;
}

}  // namespace

UcxSegment::UcxSegment(std::size_t wanted)
    : num_bytes((wanted + kAlignment - 1) / kAlignment * kAlignment),
      data(static_cast<std::byte*>(std::aligned_alloc(kAlignment, num_bytes))),
      notifications(static_cast<std::atomic<std::uint32_t>*>(
          std::calloc(kNumNotifications, sizeof(std::atomic<std::uint32_t>)))) {
  if (data == nullptr || notifications == nullptr) {
    std::free(data);
    std::free(notifications);
    throw std::bad_alloc();
  }
  std::memset(data, 0, num_bytes);
}

UcxSegment::~UcxSegment() {
  std::free(data);
  std::free(notifications);
}

UcxSegments::~UcxSegments() {
  for (auto& segment : segments_) delete segment.load();
}

UcxSegment& UcxSegments::allocate(SegmentId segment, std::size_t num_bytes) {
  auto* allocated = new UcxSegment(num_bytes);
  segments_[segment].store(allocated, std::memory_order_release);
  return *allocated;
}

std::unique_ptr<UcxSegment> UcxSegments::take_out(SegmentId segment) {
  const std::lock_guard lock(mutex_);
  return std::unique_ptr<UcxSegment>(segments_[segment].exchange(nullptr));
}

void UcxSegments::redirect(SegmentId segment, std::size_t to, std::size_t num_bytes,
                           std::byte* target) {
  const std::lock_guard lock(mutex_);
  at(segment).redirections.push_back({to, to + num_bytes, target});
}

void UcxSegments::end_redirect(SegmentId segment, std::size_t to) {
  const std::lock_guard lock(mutex_);
  std::erase_if(at(segment).redirections,
                [&](const UcxSegment::Redirection& each) { return each.begin == to; });
}

void UcxSegments::put_down(SegmentId segment, std::uint64_t offset, std::string_view data) {
  const std::lock_guard lock(mutex_);
  const UcxSegment* found = find(segment);
  if (found == nullptr) return;
  if (std::byte* place = place_in(*found, offset, data.size())) {
    std::memcpy(place, data.data(), data.size());
  }
}

void UcxSegments::notify(SegmentId segment, std::size_t slot, std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  const UcxSegment* found = find(segment);
  if (found == nullptr || slot >= UcxSegment::kNumNotifications) return;
  found->notifications[slot].store(value, std::memory_order_release);
}

const UcxSegment* UcxSegments::find(SegmentId segment) const {
  if (segment >= segments_.size()) return nullptr;
  return segments_[segment].load(std::memory_order_acquire);
}

}  // namespace tnt::comm
