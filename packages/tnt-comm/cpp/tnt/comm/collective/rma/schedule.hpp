#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tnt/comm/kernel/sum_tree.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// One message of a round: a put, if there are bytes, and a notification.
struct Message {
  int member = 0;             ///< who gets it
  std::size_t from = 0;       ///< in the sender's slot
  std::size_t to = 0;         ///< in the receiver's slot
  std::size_t num_bytes = 0;  ///< 0: only the notification
  NotificationId id = 0;
};

struct Arrival {
  int member = 0;
  NotificationId id = 0;
};

/// What one rank does between two waits: it sends, waits, and combines.
struct Round {
  std::vector<Message> sends;
  std::vector<Arrival> arrivals;

  /// Places in the own slot, in the order of the sum; none: no sum. `target` may be one of them.
  std::vector<std::size_t> operands;
  std::size_t target = 0;
  std::size_t num_bytes = 0;
};

/// All that one rank does to take one block of a collective through a slot. Pure data: places are
/// bytes from the begin of the slot, the same on all ranks, and notification numbers count from 0.
struct Schedule {
  std::vector<Round> rounds;
  std::size_t result = 0;  ///< where the outcome lies at the end
};

/// Where the two areas of a slot begin. Ranks fill and send from the *work*
/// area; what others send them to be combined *lands* in the other one.
struct Areas {
  std::size_t work = 0;
  std::size_t landing = 0;
};

/// Bytes of each area that a schedule uses.
struct AreaSizes {
  std::size_t work = 0;
  std::size_t landing = 0;
};

enum class Radices {
  one,     ///< a single level with everybody: [n]
  primes,  ///< the folds of the sum's tree
};

/// One level of a mixed-radix numbering of the members 0 .. n-1.
///
/// Member i has the digit (i / stride) mod radix on the level. Members that differ in this digit
/// only are a *team*: they exchange data on the level. The first level has stride 1, so its teams
/// are neighbours; once a team on level l has combined what its members held, each of them holds
/// the sum of `stride * radix` neighbours. That is the order of the tree.
struct Level {
  int radix = 1;
  int stride = 1;

  int digit_of(int member) const { return member / stride % radix; }
  /// The member of `member`'s team that has the digit.
  int teammate(int member, int digit) const { return member + (digit - digit_of(member)) * stride; }
};

/// The levels of a tree's members; none for one member.
std::vector<Level> levels_of(const SumTree& tree, Radices radices);

/// How the members of a group lie on hosts, and whether a host can reduce what
/// its members have before anything crosses the network.
///
/// That takes hosts with equally many members, next to each other in the group's order, whose sum
/// is a branch of the tree: only then do two levels give the same bits as one.
struct HostLayout {
  int num_hosts = 1;
  int members_per_host = 1;  ///< if `has_branches`

  /// Several hosts, several members on each, and branches of the tree.
  bool has_branches = false;

  /// Why there are no branches although some host has several members, and what helps; or "".
  std::string objection;

  /// The order of the sum inside a host, and of the hosts' sums.
  SumTree on_host{1};
  SumTree between_hosts{1};

  int host_of(int member) const { return member / members_per_host; }
  int local_index_of(int member) const { return member % members_per_host; }
  int member_at(int host, int local_index) const { return host * members_per_host + local_index; }
};

/// `hosts`: the host of each member, in the group's order. `tree`: of the members.
HostLayout host_layout(const std::vector<int>& hosts, const SumTree& tree);

/// The family of allreduce algorithms between ranks that can only put into each other's memory.
///
/// The members are cut into levels, and each level is one round,
/// in which the members of a team of q exchange what they hold and combine it.
///
///  - *Whole*: everybody sends all it has to the q-1 others and combines the q
///    vectors for itself. After the last level everybody has the result.
///    With one level this is `one_shot`, with prime factors `recursive_doubling`.
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
/// All have the bits of the tree, by which a level's operands are combined: one
/// level is the tree itself; prime levels, neighbours first, are its folds. Only
/// for 16-bit floats are prime levels not enough: partial sums would be rounded.
struct LevelScheme {
  bool is_split = false;
  Radices radices = Radices::one;

  friend bool operator==(const LevelScheme&, const LevelScheme&) = default;
};

/// The schedule of `member` of a tree for a block of `num_bytes`, which it has
/// put at the begin of the work area. A block begins and ends between elements
/// if its length is a multiple of 64 bytes or reaches the end of the array.
Schedule allreduce_schedule(const LevelScheme& scheme, int member, const SumTree& tree,
                            std::size_t num_bytes, const Areas& areas);

/// What the slots must offer for a block of `num_bytes`.
AreaSizes allreduce_areas(const LevelScheme& scheme, const SumTree& tree, std::size_t num_bytes);

/// The longest block, a multiple of 64 bytes, that fits; 0 if none does.
std::size_t longest_block(const LevelScheme& scheme, const SumTree& tree,
                          const AreaSizes& available);

/// Gives each message that a rank gets in an allreduce a notification number of
/// its own, which so has one sender only: the schedule of a segment of
/// Senders::one. Before, messages of a round have the round's number.
void number_arrivals(Schedule& schedule);

/// Messages that a rank gets in an allreduce, and so numbers after number_arrivals(): S or 2S.
std::size_t num_arrivals(const LevelScheme& scheme, const SumTree& tree);

/// Rounds of an allreduce, and so notification numbers before.
std::size_t num_rounds(const LevelScheme& scheme, const SumTree& tree);

/// The same of any scheme and tree, and of the other collectives' schedules, at most.
std::size_t max_num_rounds(int size);

enum class SentParts;

/// What `member` does to send something to everybody; `share` bytes have room for each. What
/// comes from member k lands at share * k of the landing area; what goes to it lies at share * k in
/// the work area, or where that begins if all get the same. One round, n-1 messages, whose lengths
/// are to be filled in: message d goes to the rank d + 1 further on.
Schedule exchange_schedule(int member, int size, std::size_t share, SentParts parts,
                           const Areas& areas);

/// What `member` of `size` does to take one block of `num_bytes` from the root
/// to everybody, along a binomial tree: once the root has sent the block to the
/// rank half the group away there are two who have it, then four. Blocks go
/// straight into the work areas, from which they are sent on, and follow each other
/// down the tree, so that a long array takes little more time than its way to the root's children.
///
/// A rank answers its parent as soon as it has a block. So whoever has finished
/// a block knows that its children have begun it, which is what RmaStream's
/// argument needs here: a rank writes to nobody but its children.
///
/// Rounds: ceil(log2 n) for the last rank to have it; bytes: each rank sends
/// the block to its children, the root to ceil(log2 n) of them.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas);

}  // namespace tnt::comm
