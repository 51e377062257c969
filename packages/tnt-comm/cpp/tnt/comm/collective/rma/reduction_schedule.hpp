#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/collective/rma/schedule.hpp"

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

/// The family of allreduce algorithms between ranks that can only put into
/// each other's memory.
///
/// The members are cut into levels, and each level is one round,
/// in which the members of a team of q exchange what they hold and combine it.
///
///  - *Whole*: everybody sends all it has to the q-1 others and combines the q
///    vectors for itself. After the last level everybody has the result.
///    With one level this is `direct`, with prime factors `recursive_doubling`.
///  - *Split*: the team cuts its vector into q chunks; everybody sends the
///    chunks it does not keep and combines the one it does. After the last
///    level everybody has 1/n of the result, and the same levels backwards
///    give everybody all of it. With one level this is `two_shot`, with prime
///    factors `halving_doubling`.
///
/// Rounds, messages and bytes that a rank sends for a vector of B bytes, with
/// the levels' radices q and S the sum of all q-1:
///
///     whole:  one round per level,   S messages,   S * B bytes
///     split:  two rounds per level,  2S messages,  2 (n-1)/n * B bytes
///
/// All have the bits of TreeReducer, which combines a level's operands: one
/// level is the tree itself; prime levels, neighbours first, are its folds. Only
/// for 16-bit floats are prime levels not enough: partial sums would be rounded.
struct Exchange {
  bool is_split = false;
  Radices radices = Radices::one;

  friend bool operator==(const Exchange&, const Exchange&) = default;
};

/// The schedule of `member` of `size` for a block of `num_bytes`, which it has
/// put at the begin of the work area. A block begins and ends between elements
/// if its length is a multiple of 64 bytes or reaches the end of the array.
Schedule allreduce_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                            const Areas& areas);

/// What the slots must offer for a block of `num_bytes`.
AreaSizes allreduce_areas(const Exchange& exchange, int size, std::size_t num_bytes);

/// The longest block, a multiple of 64 bytes, that fits; 0 if none does.
std::size_t longest_block(const Exchange& exchange, int size, const AreaSizes& available);

/// Gives each message that a rank gets in an allreduce a notification number of
/// its own, which so has one sender only: the schedule of a segment of
/// Senders::one. Before, messages of a round have the round's number.
void number_arrivals(Schedule& schedule);

/// Messages that a rank gets in an exchange, and so numbers after
/// number_arrivals(): S or 2S.
std::size_t num_arrivals(const Exchange& exchange, int size);

/// Rounds of an exchange, and so notification numbers before.
std::size_t num_rounds(const Exchange& exchange, int size);

/// The same of any exchange, and of the other collectives' schedules, at most.
std::size_t max_num_rounds(int size);

}  // namespace tnt::comm
