#include "tnt/comm/collective/rma/host_layout.hpp"

#include <algorithm>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

// Lengths of the runs of equal hosts.
std::vector<int> members_of_hosts(const std::vector<int>& hosts) {
  std::vector<int> counts;
  for (std::size_t member = 0; member < hosts.size(); ++member) {
    if (member == 0 || hosts[member] != hosts[member - 1]) counts.push_back(0);
    ++counts.back();
  }
  return counts;
}

// "2 or 4": the nearest numbers of ranks per host, up and down, that fit.
std::string better_numbers(int num_hosts, int wanted) {
  const auto fits = [&](int number) { return is_branch_size(number, number * num_hosts); };
  int below = std::max(1, wanted);
  while (!fits(below)) --below;  // 1 always fits
  int above = wanted + 1;
  while (!fits(above)) ++above;  // powers of two always fit
  return text(below, " or ", above);
}

}  // namespace

bool is_branch_size(int part, int size) {
  int branch = 1;
  while (branch < part && branch < size) {
    branch *= static_cast<int>(smallest_prime_factor(static_cast<std::size_t>(size / branch)));
  }
  return branch == part;
}

HostLayout host_layout(const std::vector<int>& hosts) {
  const std::vector<int> counts = members_of_hosts(hosts);
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  HostLayout layout;
  layout.num_hosts = static_cast<int>(counts.size());
  if (layout.num_hosts == 1 || *most == 1) return layout;
  if (*fewest != *most) {
    layout.objection =
        text("its hosts have between ", *fewest, " and ", *most,
             " ranks; with equally many on each, ", better_numbers(layout.num_hosts, *most), ",");
  } else if (!is_branch_size(*most, static_cast<int>(hosts.size()))) {
    layout.objection =
        text("the sum of ", *most, " neighbouring ranks is no part of the order of summation of ",
             hosts.size(), " ranks; with ", better_numbers(layout.num_hosts, *most - 1),
             " ranks on each of the ", layout.num_hosts, " hosts");
  } else {
    layout.has_branches = true;
    layout.members_per_host = *most;
  }
  return layout;
}

}  // namespace tnt::comm
