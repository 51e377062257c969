#include "tnt/comm/algorithm/network/stall.hpp"

namespace tnt::comm {
namespace {

template <typename Predicate>
std::vector<int> members_where(int size, Predicate&& holds) {
  std::vector<int> members;
  for (int member = 0; member < size; ++member) {
    if (holds(member)) members.push_back(member);
  }
  return members;
}

}  // namespace

std::vector<int> holding_up(const Health& health, const RollCall& roll_call, bool are_all_present,
                            const std::vector<int>& awaited) {
  if (awaited.empty()) return awaited;
  if (!are_all_present) {
    const auto absent = members_where(health.num_members(),
                                      [&](int member) { return !roll_call.is_present(member); });
    if (!absent.empty()) return absent;
  }
  const auto silent = members_where(health.num_members(), [&](int member) {
    return is_silent(health.status_of(member));
  });
  return silent.empty() ? awaited : silent;
}

}  // namespace tnt::comm
