#include "tnt/comm/collective/rma/schedule.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {
namespace {

// Chunks begin on cache lines, which is also between two elements of any type.

std::size_t padded(std::size_t num_bytes) {
  return round_up(num_bytes, kCacheLineBytes);
}

Range chunk(const Range& range, int parts, int index) {
  const Range part = part_of(range.size(), static_cast<std::size_t>(parts),
                             static_cast<std::size_t>(index), kCacheLineBytes);
  return {range.begin + part.begin, range.begin + part.end};
}

/// What comes in on a level: a slot of the landing area for each of the others of
/// the team. Slots are as large as the largest chunk of the level, so that all ranks,
/// whose chunks differ by a granule, have the same layout.
struct Landing {
  std::size_t begin;
  std::size_t slot_bytes;

  /// Where the member with digit `sender` writes at the one with `receiver`.
  std::size_t slot(int sender, int receiver) const {
    const int index = sender < receiver ? sender : sender - 1;
    return begin + static_cast<std::size_t>(index) * slot_bytes;
  }
  void end_level(const Level& level) {
    begin += static_cast<std::size_t>(level.radix - 1) * slot_bytes;
  }
};

/// Calls function(teammate, digit) for the others of the member's team, the next one first:
/// this spreads the load when all send at once.
template <typename Function>
void for_teammates(const Level& level, int member, const Function& function) {
  for (int distance = 1; distance < level.radix; ++distance) {
    const int digit = (level.digit_of(member) + distance) % level.radix;
    function(level.teammate(member, digit), digit);
  }
}

// Each member of a team sends the others their parts, part_for(digit), and combines its own.
template <typename Parts>
Round combining_round(const Level& level, int member, const Landing& landing, NotificationId id,
                      const Parts& part_for) {
  const int own_digit = level.digit_of(member);
  const Range own = part_for(own_digit);
  Round round;
  round.target = own.begin;
  round.num_bytes = own.size();
  for_teammates(level, member, [&](int teammate, int digit) {
    const Range part = part_for(digit);
    round.sends.push_back({teammate, part.begin, landing.slot(own_digit, digit), part.size(), id});
    round.arrivals.push_back({teammate, id});
  });
  for (int digit = 0; digit < level.radix; ++digit) {
    const bool is_own = digit == own_digit;
    round.operands.push_back(is_own ? own.begin : landing.slot(digit, own_digit));
  }
  return round;
}

Schedule whole_schedule(const LevelScheme& scheme, int member, const SumTree& tree,
                        std::size_t num_bytes, const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.work;
  Landing landing{areas.landing, padded(num_bytes)};
  // Every level writes to a buffer of its own: messages from the one before may not have left.
  for (const Level& level : levels_of(tree, scheme.radices)) {
    const Range source{schedule.result, schedule.result + num_bytes};
    schedule.rounds.push_back(combining_round(level, member, landing, schedule.rounds.size(),
                                              [&](int) { return source; }));
    schedule.result += padded(num_bytes);
    schedule.rounds.back().target = schedule.result;
    landing.end_level(level);
  }
  return schedule;
}

// The chunks come back, finished, to where they will be read: the same place in everybody's work
// area. Nobody else touches it there: a rank's copy of a teammate's chunk is used for nothing but
// to be sent to that teammate, who must have received it before it could finish the chunk.
Round gather_round(const Level& level, int member, const Range& shared, NotificationId id) {
  const Range own = chunk(shared, level.radix, level.digit_of(member));
  Round round;
  for_teammates(level, member, [&](int teammate, int) {
    round.sends.push_back({teammate, own.begin, own.begin, own.size(), id});
    round.arrivals.push_back({teammate, id});
  });
  return round;
}

Schedule split_schedule(const LevelScheme& scheme, int member, const SumTree& tree,
                        std::size_t num_bytes, const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.work;
  Landing landing{areas.landing, padded(num_bytes)};
  const std::vector<Level> levels = levels_of(tree, scheme.radices);
  // What the team of a level shares.
  std::vector<Range> shared = {{areas.work, areas.work + num_bytes}};
  for (const Level& level : levels) {
    const auto part_for = [&](int digit) { return chunk(shared.back(), level.radix, digit); };
    landing.slot_bytes = chunk({0, landing.slot_bytes}, level.radix, 0).size();
    schedule.rounds.push_back(
        combining_round(level, member, landing, schedule.rounds.size(), part_for));
    landing.end_level(level);
    shared.push_back(part_for(level.digit_of(member)));
  }
  for (std::size_t i = levels.size(); i-- > 0;) {
    schedule.rounds.push_back(gather_round(levels[i], member, shared[i], schedule.rounds.size()));
  }
  return schedule;
}

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
  const auto fits = [&](int number) { return SumTree(number * num_hosts).is_branch_size(number); };
  int below = std::max(1, wanted);
  while (!fits(below)) --below;  // 1 always fits
  int above = wanted + 1;
  while (!fits(above)) ++above;  // powers of two always fit
  return text(below, " or ", above);
}

constexpr NotificationId kData = 0;
constexpr NotificationId kAnswer = 1;

}  // namespace

std::vector<Level> levels_of(const SumTree& tree, Radices radices) {
  if (tree.size() == 1) return {};
  if (radices == Radices::one) return {{tree.size(), 1}};
  std::vector<Level> levels;
  int stride = 1;
  for (const int fold : tree.folds()) {
    levels.push_back({fold, stride});
    stride *= fold;
  }
  return levels;
}

HostLayout host_layout(const std::vector<int>& hosts, const SumTree& tree) {
  const std::vector<int> counts = members_of_hosts(hosts);
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  HostLayout layout;
  layout.num_hosts = static_cast<int>(counts.size());
  if (layout.num_hosts == 1 || *most == 1) return layout;
  if (*fewest != *most) {
    layout.objection =
        text("its hosts have between ", *fewest, " and ", *most,
             " ranks; with equally many on each, ", better_numbers(layout.num_hosts, *most), ",");
  } else if (!tree.is_branch_size(*most)) {
    layout.objection = text(
        "the sum of ", *most, " neighbouring ranks is not a step in the order of summation of ",
        hosts.size(), " ranks; with TNT_SUM_TREE=", *most, "x", layout.num_hosts,
        ", which changes that order, or with ", better_numbers(layout.num_hosts, *most - 1),
        " ranks on each of the ", layout.num_hosts, " hosts,");
  } else {
    layout.has_branches = true;
    layout.members_per_host = *most;
    layout.on_host = tree.branch(*most);
    layout.between_hosts = tree.above(*most);
  }
  return layout;
}

Schedule allreduce_schedule(const LevelScheme& scheme, int member, const SumTree& tree,
                            std::size_t num_bytes, const Areas& areas) {
  return scheme.is_split ? split_schedule(scheme, member, tree, num_bytes, areas)
                         : whole_schedule(scheme, member, tree, num_bytes, areas);
}

AreaSizes allreduce_areas(const LevelScheme& scheme, const SumTree& tree, std::size_t num_bytes) {
  AreaSizes sizes{padded(num_bytes), 0};
  std::size_t longest = padded(num_bytes);
  for (const Level& level : levels_of(tree, scheme.radices)) {
    const auto radix = static_cast<std::size_t>(level.radix);
    if (scheme.is_split) {
      longest = part_of(longest, radix, 0, kCacheLineBytes).size();
    } else {
      sizes.work += longest;
    }
    sizes.landing += (radix - 1) * longest;
  }
  return sizes;
}

std::size_t longest_block(const LevelScheme& scheme, const SumTree& tree,
                          const AreaSizes& available) {
  const auto fits = [&](std::size_t num_granules) {
    const AreaSizes needed = allreduce_areas(scheme, tree, num_granules * kCacheLineBytes);
    return needed.work <= available.work && needed.landing <= available.landing;
  };
  std::size_t most = available.work / kCacheLineBytes + 1;  // does not fit
  std::size_t fitting = 0;
  while (most - fitting > 1) {
    const std::size_t middle = fitting + (most - fitting) / 2;
    (fits(middle) ? fitting : most) = middle;
  }
  return fitting * kCacheLineBytes;
}

// In a round, a rank sends to the teammates at the distances 1, 2, ... q-1, and
// gets messages from the same ones in this order. It is itself at the distance
// q-d of the one at the distance d, and numbers its message accordingly.
void number_arrivals(Schedule& schedule) {
  NotificationId first = 0;
  for (Round& round : schedule.rounds) {
    const std::size_t num_others = round.arrivals.size();
    for (std::size_t i = 0; i < num_others; ++i) {
      round.arrivals[i].id = first + i;
      round.sends[i].id = first + num_others - 1 - i;
    }
    first += num_others;
  }
}

std::size_t num_arrivals(const LevelScheme& scheme, const SumTree& tree) {
  std::size_t num_others = 0;
  for (const Level& level : levels_of(tree, scheme.radices)) {
    num_others += static_cast<std::size_t>(level.radix - 1);
  }
  return num_others * (scheme.is_split ? 2 : 1);
}

std::size_t num_rounds(const LevelScheme& scheme, const SumTree& tree) {
  return levels_of(tree, scheme.radices).size() * (scheme.is_split ? 2 : 1);
}

std::size_t max_num_rounds(int size) {
  // All trees of as many members have as many folds.
  const LevelScheme longest{.is_split = true, .radices = Radices::primes};
  return std::max<std::size_t>(2, num_rounds(longest, SumTree(size)));
}

Schedule exchange_schedule(int member, int size, std::size_t share, SentParts parts,
                           const Areas& areas) {
  Round round;
  for (int distance = 1; distance < size; ++distance) {
    const int other = (member + distance) % size;
    const std::size_t place =
        parts == SentParts::same ? 0 : static_cast<std::size_t>(other) * share;
    const std::size_t to = areas.landing + static_cast<std::size_t>(member) * share;
    round.sends.push_back({other, areas.work + place, to, 0, kData});
    round.arrivals.push_back({other, kData});
  }
  return {{std::move(round)}, 0};
}

// Positions count from the root. The parent of a position is it without its
// lowest one bit; its children are it with one more bit below that.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas) {
  const auto member_at = [&](int position) { return (root + position) % size; };
  const int position = (member - root + size) % size;
  int bit = 1;
  while (bit < size && (position & bit) == 0) bit *= 2;
  Schedule schedule;
  Round forward;
  if (position != 0) {
    const int parent = member_at(position - bit);
    schedule.rounds.push_back({{}, {{parent, kData}}, {}});
    forward.sends.push_back({parent, 0, 0, 0, kAnswer});
  }
  for (int below = bit / 2; below >= 1; below /= 2) {
    if (position + below >= size) continue;
    const int child = member_at(position + below);
    forward.sends.push_back({child, areas.work, areas.work, num_bytes, kData});
    forward.arrivals.push_back({child, kAnswer});
  }
  schedule.rounds.push_back(std::move(forward));
  return schedule;
}

}  // namespace tnt::comm
