#pragma once

#include <vector>

namespace tnt::comm {

/// The order in which the arrays of n members are combined: a tree, all of whose levels are even.
///
/// It is a list of folds, from the leaves up, whose product is n: each level combines as many
/// neighbours as its fold says, from the lowest up. By default the folds are the prime factors of
/// n, smallest first, so that the order depends on n alone. So 4 members give (x0+x1)+(x2+x3), 6
/// give
/// ((x0+x1)+(x2+x3))+(x4+x5), 3 give (x0+x1)+x2.
///
/// A *branch* is what some levels from the bottom combine: neighbours whose sum may be formed
/// first, as that of the ranks of a host.
class SumTree {
 public:
  /// The default order.
  explicit SumTree(int size);

  /// `counts` one after the other, each in its default order: {6, 16} combines 6 neighbours first,
  /// and then the 16 sums.
  explicit SumTree(const std::vector<int>& counts);

  int size() const { return size_; }

  /// Prime numbers; none for one member.
  const std::vector<int>& folds() const { return folds_; }

  /// Whether each `part` consecutive members, counted from 0, are a branch.
  bool is_branch_size(int part) const { return num_levels_below(part) >= 0; }

  /// The tree of the members of such a branch, and that of the branches' sums.
  SumTree branch(int part) const;
  SumTree above(int part) const;

  friend bool operator==(const SumTree&, const SumTree&) = default;

 private:
  // Levels that combine `part` members; -1 if none do.
  int num_levels_below(int part) const;

  int size_;
  std::vector<int> folds_;
};

}  // namespace tnt::comm
