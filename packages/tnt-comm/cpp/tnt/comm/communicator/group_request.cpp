#include "tnt/comm/communicator/group_request.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

void require_valid_ranks(const std::vector<int>& ranks, const Environment& environment) {
  const bool is_ascending =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  const bool is_inside =
      !ranks.empty() && is_ascending && ranks.front() >= 0 && ranks.back() < environment.size;
  if (!is_inside) {
    throw UsageError(text("`ranks` must be ascending, different ranks in [0, ", environment.size,
                          "). Received: ", describe_ranks(ranks), "."));
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), environment.rank)) {
    throw UsageError(text("rank ", environment.rank, " creates a group of ", describe_ranks(ranks),
                          " and is not one of them. Only members create a group."));
  }
}

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string result = "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) result += text(i == 0 ? " " : ", ", ranks[i]);
  return result;
}

std::uint64_t fingerprint_of(const std::vector<int>& ranks) {
  // FNV-1a.
  std::uint64_t fingerprint = 14695981039346656037ULL;
  for (const int rank : ranks) {
    for (int shift = 0; shift < 32; shift += 8) {
      fingerprint ^= (static_cast<std::uint32_t>(rank) >> shift) & 0xffU;
      fingerprint *= 1099511628211ULL;
    }
  }
  return fingerprint;
}

std::string group_key(const CreationId& id) {
  std::ostringstream key;
  key << "group-" << std::hex << std::setw(16) << std::setfill('0') << id.members << std::dec << "-"
      << id.use;
  return key.str();
}

}  // namespace tnt::comm
