#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {

/// The remote keys of other ranks' segments: what a rank must have to put into them.
///
/// A segment's number is used again, so a key replaces the one before. Nobody puts by that any
/// more: its segment was released when all members had said that they write no more, behind their
/// last puts.
///
/// Threads: guarded by the mutex of the worker.
class RemoteKeys {
 public:
  /// Where and by what to put.
  struct Target {
    std::uint64_t address;  ///< of the segment, in its rank
    ucx::RemoteKey key;
  };

  explicit RemoteKeys(const ucx::Functions& functions) : functions_(functions) {}
  RemoteKeys(RemoteKeys&&) = delete;

  /// What a rank tells others of a segment, for note(). Without a key: that it has none.
  static std::string message_of(const void* address, std::string_view key) {
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
    std::string message(sizeof number, '\0');
    std::memcpy(message.data(), &number, sizeof number);
    return message.append(key);
  }

  /// Such a message has come from `rank`. For handlers of the worker.
  void note(int rank, SegmentId segment, std::string_view message) {
    Entry entry;
    if (message.size() < sizeof entry.address) return;  // of no rank of the job
    std::memcpy(&entry.address, message.data(), sizeof entry.address);
    entry.packed = message.substr(sizeof entry.address);
    Entry& known = entries_[{rank, segment}];
    if (known.key != nullptr) replaced_.push_back(known.key);
    known = std::move(entry);
  }

  /// Nothing if the key is not known. Not from a handler.
  std::optional<Target> find(int rank, SegmentId segment, ucx::Endpoint endpoint) {
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

  /// Before the worker ends.
  void clear() {
    destroy_replaced();
    for (auto& [place, entry] : std::exchange(entries_, {})) {
      if (entry.key != nullptr) functions_.rkey_destroy(entry.key);
    }
  }

 private:
  struct Entry {
    std::uint64_t address = 0;
    std::string packed;            // until it is used
    ucx::RemoteKey key = nullptr;  // of the endpoint, from then on
  };

  void destroy_replaced() {
    for (const ucx::RemoteKey key : std::exchange(replaced_, {})) functions_.rkey_destroy(key);
  }

  const ucx::Functions& functions_;
  std::map<std::pair<int, SegmentId>, Entry> entries_;
  std::vector<ucx::RemoteKey> replaced_;  // keys that a handler should not destroy
};

/// Memory of this rank that others write into, zeroed whole pages, and its notification slots.
struct UcxSegment {
  static constexpr std::size_t kNumNotifications = std::size_t{1} << 17;

  /// std::bad_alloc.
  explicit UcxSegment(std::size_t wanted)
      : num_bytes(round_up(wanted, page_bytes())),
        data(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), num_bytes))),
        notifications(static_cast<std::atomic<std::uint32_t>*>(
            std::calloc(kNumNotifications, sizeof(std::atomic<std::uint32_t>)))) {
    if (data == nullptr || notifications == nullptr) {
      std::free(data);
      std::free(notifications);
      throw std::bad_alloc();
    }
    std::memset(data, 0, num_bytes);
  }

  ~UcxSegment() {
    std::free(data);
    std::free(notifications);
  }

  UcxSegment(UcxSegment&&) = delete;

  /// Null if there is no such range.
  std::byte* place(std::uint64_t offset, std::size_t count) const {
    if (offset > num_bytes || count > num_bytes - offset) return nullptr;
    for (const auto& [begin, end, target] : redirections) {
      if (offset >= begin && offset + count <= end) return target + (offset - begin);
    }
    return data + offset;
  }

  struct Redirection {
    std::size_t begin;
    std::size_t end;
    std::byte* target;
  };

  std::size_t num_bytes;
  std::byte* data;
  std::atomic<std::uint32_t>* notifications;   // zeroed pages, used as they are touched
  std::optional<RegisteredMemory> registered;  // when others may put into it
  std::vector<Redirection> redirections;       // few
};

/// The segments of this rank by number.
///
/// Threads: all functions may be called from any thread. Who asks at() for a segment, or redirects
/// it, owns it and takes it out when that is over.
class UcxSegments {
 public:
  UcxSegments() = default;

  ~UcxSegments() {
    for (auto& segment : segments_) delete segment.load();
  }

  UcxSegments(UcxSegments&&) = delete;

  /// std::bad_alloc.
  UcxSegment& allocate(SegmentId segment, std::size_t num_bytes) {
    auto* allocated = new UcxSegment(num_bytes);
    segments_[segment].store(allocated, std::memory_order_release);
    return *allocated;
  }

  UcxSegment& at(SegmentId segment) const {
    return *segments_[segment].load(std::memory_order_acquire);
  }

  /// What arrives for it from then on is dropped.
  std::unique_ptr<UcxSegment> take_out(SegmentId segment) {
    const std::lock_guard lock(mutex_);
    return std::unique_ptr<UcxSegment>(segments_[segment].exchange(nullptr));
  }

  /// See RmaDevice.
  void redirect(SegmentId segment, std::size_t to, std::size_t num_bytes, std::byte* target) {
    const std::lock_guard lock(mutex_);
    at(segment).redirections.push_back({to, to + num_bytes, target});
  }

  void end_redirect(SegmentId segment, std::size_t to) {
    const std::lock_guard lock(mutex_);
    std::erase_if(at(segment).redirections,
                  [&](const UcxSegment::Redirection& each) { return each.begin == to; });
  }

  // What arrives. Nothing happens if there is no such place: the members have given up the segment.
  void put_down(SegmentId segment, std::uint64_t offset, std::string_view data) {
    const std::lock_guard lock(mutex_);
    const UcxSegment* found = find(segment);
    if (found == nullptr) return;
    if (std::byte* place = found->place(offset, data.size())) {
      std::memcpy(place, data.data(), data.size());
    }
  }

  void notify(SegmentId segment, std::size_t slot, std::uint32_t value) {
    const std::lock_guard lock(mutex_);
    const UcxSegment* found = find(segment);
    if (found == nullptr || slot >= UcxSegment::kNumNotifications) return;
    found->notifications[slot].store(value, std::memory_order_release);
  }

 private:
  const UcxSegment* find(SegmentId segment) const {
    if (segment >= segments_.size()) return nullptr;
    return segments_[segment].load(std::memory_order_acquire);
  }

  std::array<std::atomic<UcxSegment*>, RmaDevice::kNumSegments> segments_{};
  std::mutex mutex_;  // for what is written to or taken out, and for redirections
};

}  // namespace tnt::comm
