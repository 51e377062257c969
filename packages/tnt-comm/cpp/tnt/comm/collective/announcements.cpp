#include "tnt/comm/collective/announcements.hpp"

namespace tnt::comm {

void Announcements::announce(std::size_t which, std::uint64_t value) {
  // Starting with the next rank spreads the load when all announce at once.
  for (int distance = 1; distance < segment_->size(); ++distance) {
    segment_->notify((segment_->rank() + distance) % segment_->size(), first_ + which, value);
  }
}

bool Announcements::have_all(std::size_t which, std::uint64_t value) const {
  for (int member = 0; member < segment_->size(); ++member) {
    if (member != segment_->rank() && newest_of(member, which) < value) return false;
  }
  return true;
}

std::vector<int> Announcements::missing(std::size_t which, std::uint64_t value) const {
  std::vector<int> result;
  for (int member = 0; member < segment_->size(); ++member) {
    if (member != segment_->rank() && newest_of(member, which) < value) result.push_back(member);
  }
  return result;
}

}  // namespace tnt::comm
