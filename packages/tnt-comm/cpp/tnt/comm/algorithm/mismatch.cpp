#include "tnt/comm/algorithm/mismatch.hpp"

#include <map>
#include <string>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

Error mismatch_error(const Health& health, const std::vector<Descriptor>& calls) {
  std::map<std::string, std::vector<int>> callers;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    callers[calls[member].describe()].push_back(static_cast<int>(member));
  }
  std::string all;
  for (const auto& [call, members] : callers) {
    all += text(all.empty() ? "" : "; ", health.names_of(members), " called ", call);
  }
  return {ErrorKind::mismatch,
          text("Collective call ", calls.front().call_index, " of group '", health.group_name(),
               "' differs between ranks: ", all,
               ". All members must make the same calls with the same dtypes, sizes and"
               " operations, in the same order.")};
}

}  // namespace tnt::comm
