#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "tnt/comm/transport/rma/gpi2/gaspi.hpp"

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
  std::array<bool, Gaspi::kNumSegments> is_taken_{};
};

}  // namespace tnt::comm
