#include "tnt/comm/collective/rma/reduction_schedule.hpp"

#include <algorithm>

#include "tnt/comm/base/array.hpp"

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

/// Where things lie in the landing area on the rounds of a reduction, one
/// after the other: each round has a slot for each of the others of the team.
/// Slots are as large as the largest chunk of the level, so that all ranks,
/// whose chunks differ by a granule, have the same layout.
class LandingOffsets {
 public:
  explicit LandingOffsets(std::size_t begin) : next_(begin) {}

  void begin_level(const Level& level, std::size_t slot_bytes) {
    begin_ = next_;
    slot_bytes_ = slot_bytes;
    next_ = begin_ + static_cast<std::size_t>(level.radix - 1) * slot_bytes;
  }
  /// Where the member with digit `sender` writes at the one with `receiver`.
  std::size_t slot(int sender, int receiver) const {
    const int index = sender < receiver ? sender : sender - 1;
    return begin_ + static_cast<std::size_t>(index) * slot_bytes_;
  }

 private:
  std::size_t next_;
  std::size_t begin_ = 0;
  std::size_t slot_bytes_ = 0;
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

Schedule whole_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                        const Areas& areas) {
  Schedule schedule;
  LandingOffsets slots(areas.landing);
  // Every level writes to a buffer of its own: nothing says yet that the
  // messages sent from the one before have left.
  std::size_t source = areas.work;
  for (const Level& level : levels_of(size, exchange.radices)) {
    const Team team{level, member};
    const NotificationId id = schedule.rounds.size();
    slots.begin_level(level, padded(num_bytes));
    Round round;
    round.num_bytes = num_bytes;
    round.target = source + padded(num_bytes);
    team.for_others([&](int digit) {
      round.sends.push_back(
          {team.teammate(digit), source, slots.slot(team.digit(), digit), num_bytes, id});
      round.arrivals.push_back({team.teammate(digit), id});
    });
    for (int digit = 0; digit < level.radix; ++digit) {
      const bool is_own = digit == team.digit();
      round.operands.push_back(is_own ? source : slots.slot(digit, team.digit()));
    }
    source = round.target;
    schedule.rounds.push_back(std::move(round));
  }
  schedule.result = source;
  return schedule;
}

// The member of a team keeps its chunk of what the team shares.
Round scatter_round(const Team& team, const Range& shared, const LandingOffsets& slots,
                    NotificationId id, const Areas& areas) {
  const Range own = chunk(shared, team.radix(), team.digit());
  Round round;
  round.target = areas.work + own.begin;
  round.num_bytes = own.size();
  team.for_others([&](int digit) {
    const Range part = chunk(shared, team.radix(), digit);
    round.sends.push_back({team.teammate(digit), areas.work + part.begin,
                           slots.slot(team.digit(), digit), part.size(), id});
    round.arrivals.push_back({team.teammate(digit), id});
  });
  for (int digit = 0; digit < team.radix(); ++digit) {
    const bool is_own = digit == team.digit();
    round.operands.push_back(is_own ? round.target : slots.slot(digit, team.digit()));
  }
  return round;
}

// The chunks come back, finished, to where they will be read: the same place
// in everybody's work area. Nobody else touches it there: a rank's copy of a
// teammate's chunk is used for nothing but to be sent to that teammate, who
// must have received it before it could finish the chunk.
Round gather_round(const Team& team, const Range& shared, NotificationId id, const Areas& areas) {
  const Range own = chunk(shared, team.radix(), team.digit());
  const std::size_t place = areas.work + own.begin;
  Round round;
  team.for_others([&](int digit) {
    round.sends.push_back({team.teammate(digit), place, place, own.size(), id});
    round.arrivals.push_back({team.teammate(digit), id});
  });
  return round;
}

Schedule split_schedule(const Exchange& exchange, int member, int size, std::size_t num_bytes,
                        const Areas& areas) {
  Schedule schedule;
  schedule.result = areas.work;
  LandingOffsets slots(areas.landing);
  const std::vector<Level> levels = levels_of(size, exchange.radices);
  std::vector<Range> shared = {{0, num_bytes}};  // what the team of a level shares
  std::size_t longest = padded(num_bytes);
  for (const Level& level : levels) {
    const Team team{level, member};
    longest = part_of(longest, static_cast<std::size_t>(level.radix), 0, kCacheLineBytes).size();
    slots.begin_level(level, longest);
    schedule.rounds.push_back(
        scatter_round(team, shared.back(), slots, schedule.rounds.size(), areas));
    shared.push_back(chunk(shared.back(), level.radix, team.digit()));
  }
  for (std::size_t i = levels.size(); i-- > 0;) {
    schedule.rounds.push_back(
        gather_round({levels[i], member}, shared[i], schedule.rounds.size(), areas));
  }
  return schedule;
}

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

}  // namespace tnt::comm
