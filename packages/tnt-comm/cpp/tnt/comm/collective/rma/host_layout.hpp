#pragma once

#include <string>
#include <vector>

namespace tnt::comm {

/// Whether each `part` consecutive members of `size`, counted from 0, are a
/// branch of the tree of TreeReducer, so that they can combine what they have first.
bool is_branch_size(int part, int size);

/// How the members of a group lie on hosts, and whether a host can reduce what
/// its members have before anything crosses the network.
///
/// That takes hosts with equally many members, next to each other in the
/// group's order, whose sum is a branch of the tree: only then do two levels
/// give the same bits as one.
struct HostLayout {
  int num_hosts = 1;
  int members_per_host = 1;  ///< if `has_branches`

  /// Several hosts, several members on each, and branches of the tree.
  bool has_branches = false;

  /// Why there are no branches although some host has several members, and
  /// what would help. Empty otherwise.
  std::string objection;

  int host_of(int member) const { return member / members_per_host; }
  int local_index_of(int member) const { return member % members_per_host; }
  int member_at(int host, int local_index) const { return host * members_per_host + local_index; }
};

/// `hosts`: the host of each member, in the group's order.
HostLayout host_layout(const std::vector<int>& hosts);

}  // namespace tnt::comm
