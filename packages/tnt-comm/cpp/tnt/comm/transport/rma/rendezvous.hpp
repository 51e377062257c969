#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// Which segment ids of this rank are free. Every rank numbers its segments for
/// itself: what others need to know, they are told.
class SegmentIds {
 public:
  /// The smallest free id, if there is one.
  std::optional<SegmentId> take() {
    const std::lock_guard lock(mutex_);
    for (std::size_t id = 0; id < is_taken_.size(); ++id) {
      if (is_taken_[id]) continue;
      is_taken_[id] = true;
      return static_cast<SegmentId>(id);
    }
    return std::nullopt;
  }

  void give_back(SegmentId id) {
    const std::lock_guard lock(mutex_);
    is_taken_[id] = false;
  }

 private:
  std::mutex mutex_;
  std::array<bool, RmaDevice::kNumSegments> is_taken_{};
};

/// What other ranks have said about segments that are being created or given
/// back, by the segments' keys. Messages may come before this rank asks.
///
/// Threads: all functions may be called from any thread.
class Rendezvous {
 public:
  struct Said {
    /// What the rank asks for: bytes, notifications, members. All members must ask for the same.
    std::optional<ControlMessage::Numbers> terms;
    std::optional<SegmentId> part;
    bool has_released = false;
  };

  void note(int from, const ControlMessage& message) {
    if (message.kind < ControlKind::creating || message.kind > ControlKind::released) {
      throw Error(ErrorKind::mismatch,
                  text("rank ", from, " has sent a message of kind ",
                       static_cast<std::uint32_t>(message.kind),
                       ", which this rank does not know. Start all ranks with the same version of"
                       " tnt-comm."));
    }
    const std::lock_guard lock(mutex_);
    Said& said = said_[{message.text(), from}];
    if (message.kind == ControlKind::creating) said.terms = message.numbers;
    if (message.kind == ControlKind::ready) said.part = static_cast<SegmentId>(message.numbers[0]);
    if (message.kind == ControlKind::released) said.has_released = true;
  }

  Said said(const std::string& key, int rank) const {
    const std::lock_guard lock(mutex_);
    const auto found = said_.find({key, rank});
    return found == said_.end() ? Said{} : found->second;
  }

  /// Keys are used once: after all members have released it, nobody asks again.
  void forget(const std::string& key, int rank) {
    const std::lock_guard lock(mutex_);
    said_.erase({key, rank});
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, Said> said_;
};

}  // namespace tnt::comm
