#include "tnt/comm/base/text.hpp"

#include <algorithm>

namespace tnt::comm {

std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::function<std::string(int)>& name_of) {
  constexpr std::size_t kMostNames = 10;
  std::string result = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t index = 0; index < std::min(ranks.size(), kMostNames); ++index) {
    const int rank = ranks[index];
    result += text(index == 0 ? " " : ", ", name_of ? name_of(rank) : std::to_string(rank));
  }
  if (ranks.size() > kMostNames) result += text(" and ", ranks.size() - kMostNames, " more");
  return result;
}

}  // namespace tnt::comm
