#include "tnt/comm/collective/mismatch.hpp"

#include <map>
#include <string>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

Error mismatch_error(const AbortState& abort_state, const std::vector<MadeCall>& calls) {
  std::vector<std::string> titles;  // in the order of the ranks that make the calls first
  std::map<std::string, std::vector<int>> callers;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    const std::string title = calls[member].descriptor.describe() + calls[member].note;
    if (callers.count(title) == 0) titles.push_back(title);
    callers[title].push_back(static_cast<int>(member));
  }
  std::string all;
  for (const std::string& title : titles) {
    all += text(all.empty() ? "" : "; ", abort_state.names_of(callers[title]), " called ", title);
  }
  return {ErrorKind::mismatch,
          text("Collective call ", calls.front().descriptor.call_index, " of group '",
               abort_state.group_name(), "' differs between ranks: ", all,
               ". All members must make the same calls with the same dtypes, sizes and"
               " operations, in the same order.")};
}

}  // namespace tnt::comm
