#include "tnt/comm/communicator/stalls.hpp"

#include <algorithm>
#include <utility>

namespace tnt::comm {

bool Stalls::empty() const {
  const std::lock_guard lock(mutex_);
  return ranks_.empty();
}

bool Stalls::cover(Wait wait, const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& reported) {
      const auto& [other, awaited] = reported;
      return other != wait && std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
    });
  });
}

void Stalls::set(Wait wait, std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  ranks_[wait] = std::move(ranks);
}

void Stalls::end(Wait wait) {
  const std::lock_guard lock(mutex_);
  ranks_.erase(wait);
}

}  // namespace tnt::comm
