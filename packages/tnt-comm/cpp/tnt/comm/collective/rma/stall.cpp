#include "tnt/comm/collective/rma/stall.hpp"

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

std::vector<int> holding_up(const AbortState& abort_state, const std::vector<int>& awaited,
                            const std::function<bool(int)>& has_made_call) {
  if (awaited.empty()) return awaited;
  const int size = abort_state.num_members();
  const auto absent = members_where(size, [&](int member) { return !has_made_call(member); });
  if (!absent.empty()) return absent;
  const auto silent =
      members_where(size, [&](int member) { return is_silent(abort_state.status_of(member)); });
  return silent.empty() ? awaited : silent;
}

}  // namespace tnt::comm
