#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"

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

}  // namespace tnt::comm
