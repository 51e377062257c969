#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace tnt::comm {

std::string RemoteKeys::message_of(const void* address, std::string_view key) {
  const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
  std::string message(sizeof number, '\0');
  std::memcpy(message.data(), &number, sizeof number);
  return message.append(key);
}

void RemoteKeys::note(int rank, SegmentId segment, std::string_view message) {
  Entry entry;
  if (message.size() < sizeof entry.address) return;  // of no rank of the job
  std::memcpy(&entry.address, message.data(), sizeof entry.address);
  entry.packed = message.substr(sizeof entry.address);
  Entry& known = entries_[{rank, segment}];
  if (known.key != nullptr) replaced_.push_back(known.key);
  known = std::move(entry);
}

std::optional<RemoteKeys::Target> RemoteKeys::find(int rank, SegmentId segment,
                                                   ucx::Endpoint endpoint) {
  destroy_replaced();
  const auto found = entries_.find({rank, segment});
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (!entry.packed.empty()) {
    const std::string packed = std::exchange(entry.packed, {});
    if (functions_.ep_rkey_unpack(endpoint, packed.data(), &entry.key) != ucx::kOk) {
      entry.key = nullptr;
    }
  }
  if (entry.key == nullptr) return std::nullopt;
  return Target{entry.address, entry.key};
}

void RemoteKeys::clear() {
  destroy_replaced();
  for (auto& [place, entry] : std::exchange(entries_, {})) {
    if (entry.key != nullptr) functions_.rkey_destroy(entry.key);
  }
}

void RemoteKeys::destroy_replaced() {
  for (const ucx::RemoteKey key : std::exchange(replaced_, {})) functions_.rkey_destroy(key);
}

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
