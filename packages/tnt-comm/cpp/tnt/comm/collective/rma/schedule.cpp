#include "tnt/comm/collective/rma/schedule.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/partition.hpp"
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

/// One rank's view of a level.
struct Team {
  Level level;
  int member;

  int digit() const { return level.digit_of(member); }
  int radix() const { return level.radix; }
  int teammate(int other_digit) const { return level.teammate(member, other_digit); }

  /// Calls function(digit) for the others, the next one first: this spreads
  /// the load when all send at once.
  template <typename Function>
  void for_others(Function&& function) const {
    for (int distance = 1; distance < radix(); ++distance) {
      function((digit() + distance) % radix());
    }
  }
};

// Each member of a team sends the others their parts, part_for(digit), and combines its own.
template <typename Parts>
Round combining_round(const Team& team, const Landing& landing, NotificationId id,
                      const Parts& part_for) {
  const Range own = part_for(team.digit());
  Round round;
  round.target = own.begin;
  round.num_bytes = own.size();
  team.for_others([&](int digit) {
    const Range part = part_for(digit);
    round.sends.push_back(
        {team.teammate(digit), part.begin, landing.slot(team.digit(), digit), part.size(), id});
    round.arrivals.push_back({team.teammate(digit), id});
  });
  for (int digit = 0; digit < team.radix(); ++digit) {
    const bool is_own = digit == team.digit();
    round.operands.push_back(is_own ? own.begin : landing.slot(digit, team.digit()));
  }
  return round;
}

Schedule whole_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                        const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.work;
  Landing landing{areas.landing, padded(num_bytes)};
  // Every level writes to a buffer of its own: nothing says yet that the
  // messages sent from the one before have left.
  for (const Level& level : levels_of(size, exchange.radices)) {
    const Range source{schedule.result, schedule.result + num_bytes};
    schedule.rounds.push_back(combining_round({level, member}, landing, schedule.rounds.size(),
                                              [&](int) { return source; }));
    schedule.result += padded(num_bytes);
    schedule.rounds.back().target = schedule.result;
    landing.end_level(level);
  }
  return schedule;
}

// The chunks come back, finished, to where they will be read: the same place
// in everybody's work area. Nobody else touches it there: a rank's copy of a
// teammate's chunk is used for nothing but to be sent to that teammate, who
// must have received it before it could finish the chunk.
Round gather_round(const Team& team, const Range& shared, NotificationId id) {
  const Range own = chunk(shared, team.radix(), team.digit());
  Round round;
  team.for_others([&](int digit) {
    round.sends.push_back({team.teammate(digit), own.begin, own.begin, own.size(), id});
    round.arrivals.push_back({team.teammate(digit), id});
  });
  return round;
}

Schedule split_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                        const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.work;
  Landing landing{areas.landing, padded(num_bytes)};
  const std::vector<Level> levels = levels_of(size, exchange.radices);
  // What the team of a level shares.
  std::vector<Range> shared = {{areas.work, areas.work + num_bytes}};
  for (const Level& level : levels) {
    const Team team{level, member};
    const auto part_for = [&](int digit) { return chunk(shared.back(), level.radix, digit); };
    landing.slot_bytes = chunk({0, landing.slot_bytes}, level.radix, 0).size();
    schedule.rounds.push_back(combining_round(team, landing, schedule.rounds.size(), part_for));
    landing.end_level(level);
    shared.push_back(part_for(team.digit()));
  }
  for (std::size_t i = levels.size(); i-- > 0;) {
    schedule.rounds.push_back(gather_round({levels[i], member}, shared[i], schedule.rounds.size()));
  }
  return schedule;
}

constexpr NotificationId kData = 0;
constexpr NotificationId kAnswer = 1;

}  // namespace

std::vector<Level> levels_of(int size, Radices radices) {
  std::vector<Level> levels;
  int stride = 1;
  while (stride < size) {
    const int left = size / stride;
    const int radix = radices == Radices::one
                          ? left
                          : static_cast<int>(smallest_prime_factor(static_cast<std::size_t>(left)));
    levels.push_back({radix, stride});
    stride *= radix;
  }
  return levels;
}

Schedule allreduce_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                            const Areas& areas) {
  return exchange.is_split ? split_schedule(exchange, member, size, num_bytes, areas)
                           : whole_schedule(exchange, member, size, num_bytes, areas);
}

AreaSizes allreduce_areas(const Exchange& exchange, int size, std::size_t num_bytes) {
  AreaSizes sizes{padded(num_bytes), 0};
  std::size_t longest = padded(num_bytes);
  for (const Level& level : levels_of(size, exchange.radices)) {
    const auto radix = static_cast<std::size_t>(level.radix);
    if (exchange.is_split) {
      longest = part_of(longest, radix, 0, kCacheLineBytes).size();
    } else {
      sizes.work += longest;
    }
    sizes.landing += (radix - 1) * longest;
  }
  return sizes;
}

std::size_t longest_block(const Exchange& exchange, int size, const AreaSizes& available) {
  const auto fits = [&](std::size_t num_granules) {
    const AreaSizes needed = allreduce_areas(exchange, size, num_granules * kCacheLineBytes);
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

std::size_t num_arrivals(const Exchange& exchange, int size) {
  std::size_t num_others = 0;
  for (const Level& level : levels_of(size, exchange.radices)) {
    num_others += static_cast<std::size_t>(level.radix - 1);
  }
  return num_others * (exchange.is_split ? 2 : 1);
}

std::size_t num_rounds(const Exchange& exchange, int size) {
  return levels_of(size, exchange.radices).size() * (exchange.is_split ? 2 : 1);
}

std::size_t max_num_rounds(int size) {
  return std::max<std::size_t>(2, num_rounds({.is_split = true, .radices = Radices::primes}, size));
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
