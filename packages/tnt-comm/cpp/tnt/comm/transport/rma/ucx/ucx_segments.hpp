#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_network.hpp"

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
  RemoteKeys(const RemoteKeys&) = delete;
  RemoteKeys& operator=(const RemoteKeys&) = delete;

  /// What a rank tells others of a segment, for note(). Without a key: that it has none.
  static std::string message_of(const void* address, std::string_view key);

  /// Such a message has come from `rank`. For handlers of the worker.
  void note(int rank, SegmentId segment, std::string_view message);

  /// Nothing if the key is not known. Not from a handler.
  std::optional<Target> find(int rank, SegmentId segment, ucx::Endpoint endpoint);

  /// Before the worker ends.
  void clear();

 private:
  struct Entry {
    std::uint64_t address = 0;
    std::string packed;            // until it is used
    ucx::RemoteKey key = nullptr;  // of the endpoint, from then on
  };

  void destroy_replaced();

  const ucx::Functions& functions_;
  std::map<std::pair<int, SegmentId>, Entry> entries_;
  std::vector<ucx::RemoteKey> replaced_;  // keys that a handler should not destroy
};

/// Memory of this rank that others write into, zeroed and 64-byte aligned, and its notification
/// slots.
struct UcxSegment {
  static constexpr std::size_t kNumNotifications = std::size_t{1} << 17;

  explicit UcxSegment(std::size_t wanted);  ///< std::bad_alloc
  ~UcxSegment();
  UcxSegment(const UcxSegment&) = delete;
  UcxSegment& operator=(const UcxSegment&) = delete;

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
  ~UcxSegments();
  UcxSegments(const UcxSegments&) = delete;
  UcxSegments& operator=(const UcxSegments&) = delete;

  /// std::bad_alloc.
  UcxSegment& allocate(SegmentId segment, std::size_t num_bytes);
  UcxSegment& at(SegmentId segment) const {
    return *segments_[segment].load(std::memory_order_acquire);
  }
  /// What arrives for it from then on is dropped.
  std::unique_ptr<UcxSegment> take_out(SegmentId segment);

  /// See RmaDevice.
  void redirect(SegmentId segment, std::size_t to, std::size_t num_bytes, std::byte* target);
  void end_redirect(SegmentId segment, std::size_t to);

  // What arrives. Nothing happens if there is no such place: the members have given up the segment.
  void put_down(SegmentId segment, std::uint64_t offset, std::string_view data);
  void notify(SegmentId segment, std::size_t slot, std::uint32_t value);

 private:
  const UcxSegment* find(SegmentId segment) const;

  std::array<std::atomic<UcxSegment*>, RmaDevice::kNumSegments> segments_{};
  std::mutex mutex_;  // for what is written to or taken out, and for redirections
};

}  // namespace tnt::comm
