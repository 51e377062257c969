#pragma once

#include <vector>

namespace tnt::comm {

/// How the members of a group are cut into levels.
enum class Radices {
  one,     ///< a single level with everybody: [n]
  primes,  ///< the prime factors of n, smallest first
};

/// One level of a mixed-radix numbering of the members 0 .. n-1.
///
/// Member i has the digit (i / stride) mod radix on the level. Members that
/// differ in this digit only are a *team*: they exchange data on the level.
/// The first level has stride 1, so its teams are neighbours; once a team on
/// level l has combined what its members held, each of them holds the sum of
/// `stride * radix` neighbours. That is the order of TreeReducer.
struct Level {
  int radix = 1;
  int stride = 1;

  int digit_of(int member) const { return member / stride % radix; }
  /// The member of `member`'s team that has the digit.
  int teammate(int member, int digit) const { return member + (digit - digit_of(member)) * stride; }
};

/// The levels of `size` members; none for one member.
std::vector<Level> levels_of(int size, Radices radices);

/// Whether each `part` consecutive members of `size`, counted from 0, are a
/// branch of the tree, so that they can combine what they have first.
bool is_branch_size(int part, int size);

}  // namespace tnt::comm
