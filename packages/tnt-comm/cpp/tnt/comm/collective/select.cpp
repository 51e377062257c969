#include "tnt/comm/collective/select.hpp"

#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

namespace tnt::comm {
namespace {

// A message that travels alone takes this long over TCP, from call to call
// (60 to 80 us were measured between two ranks of GPI-2)...
constexpr double kRoundUs = 70;
// ...and each further one at the same time occupies the sender this long
// (0.04 to 0.07 million messages per second were).
constexpr double kMessageUs = 20;
// 1.4 GB/s for large messages.
constexpr double kUsPerByte = 1e-3 / 1.4;
// Combining two operands, which are in the second-level cache, and the copies.
constexpr double kUsPerCombinedByte = 1.5e-4;

// The largest message that is exchanged in one block; what the landing area of a slot holds.
constexpr std::size_t kBlockBytes = 256 * 1024;

// What the table is asked about: the message that one rank exchanges, and with how many others.
struct AllreduceQuery {
  Topology topology;
  bool rounds_once;  // no partial sum may be rounded
  int size;
  std::size_t num_bytes;
};

AllreduceQuery query_of(const AllreduceCase& wanted) {
  if (wanted.topology != Topology::hierarchical) {
    return {wanted.topology, is_half(wanted.dtype), wanted.num_members, wanted.num_bytes};
  }
  // Each rank of a host exchanges a chunk; partial sums are float32.
  const auto ranks_per_host = static_cast<std::size_t>(wanted.num_members / wanted.num_hosts);
  const std::size_t widened = wanted.num_bytes * (is_half(wanted.dtype) ? 2 : 1);
  return {wanted.topology, false, wanted.num_hosts, widened / ranks_per_host};
}

bool is_one_block(const AllreduceQuery& query) {
  return query.num_bytes <= kBlockBytes;
}
bool do_copies_fit(const AllreduceQuery& query, Radices radices) {
  const LevelScheme whole{.is_split = false, .radices = radices};
  return num_arrivals(whole, SumTree(query.size)) * query.num_bytes <= kBlockBytes;
}

// The table. A rule can be used where its memory and its arithmetic allow it (`reads`: in groups
// whose members read each other's memory), and is proposed for the messages it is meant for; of the
// proposed rules the one with the least estimated time is taken, of equal ones the first.
struct TuningRule {
  AllreduceAlgorithm algorithm;
  bool reads;
  bool sums_in_parts;   // rounds 16-bit floats more than once
  bool fits_one_block;  // takes what fits in one slot
  bool (*is_proposed)(const AllreduceQuery& query);
};
using Query = const AllreduceQuery&;
constexpr TuningRule kTuningRules[] = {
    {AllreduceAlgorithm::one_shot, true, false, true,
     [](Query query) { return query.num_bytes <= one_shot_limit_bytes(query.size); }},
    {AllreduceAlgorithm::two_shot, true, false, false,
     [](Query query) { return query.num_bytes > one_shot_limit_bytes(query.size); }},
    {AllreduceAlgorithm::one_shot, false, false, false,
     [](Query query) { return do_copies_fit(query, Radices::one); }},
    {AllreduceAlgorithm::recursive_doubling, false, true, false,
     [](Query query) { return do_copies_fit(query, Radices::primes); }},
    {AllreduceAlgorithm::two_shot, false, false, false,
     [](Query query) { return query.rounds_once || is_one_block(query); }},
    {AllreduceAlgorithm::halving_doubling, false, true, false, is_one_block},
    {AllreduceAlgorithm::pipelined, false, true, false,
     [](Query query) { return !is_one_block(query); }},
};

// Why a rule cannot be used; null if it can.
const char* objection(const TuningRule& rule, const AllreduceQuery& query) {
  if (rule.reads != (query.topology == Topology::readable)) {
    return rule.reads ? "needs ranks that read each other's memory"
                      : "exchanges messages, but the ranks of this group read each other's memory";
  }
  if (rule.sums_in_parts && query.rounds_once) {
    return "would round 16-bit floats more than once";
  }
  if (rule.fits_one_block && !is_one_block(query)) {
    return "takes at most 256 KiB among ranks that read each other's memory";
  }
  return nullptr;
}

// Microseconds that an algorithm is estimated to take between ranks that exchange messages.
double estimated_us(AllreduceAlgorithm algorithm, int size, std::size_t num_bytes) {
  const MessagePattern pattern = pattern_of(algorithm);
  const auto bytes = static_cast<double>(num_bytes);
  const SumTree tree(size);  // in the default order: another one has as many folds
  const auto rounds = static_cast<double>(num_rounds(pattern.scheme, tree));
  const auto messages = static_cast<double>(num_arrivals(pattern.scheme, tree));
  const double share = static_cast<double>(size - 1) / size;
  const double combined = pattern.scheme.is_split ? share * bytes : messages * bytes;
  const double sent = pattern.scheme.is_split ? 2 * share * bytes : combined;
  // Blocks that follow each other closely pay for the rounds once.
  const auto blocks = static_cast<double>((num_bytes + kBlockBytes - 1) / kBlockBytes);
  const double waits = pattern.has_many_blocks_under_way ? 1 : std::max(1.0, blocks);
  return waits * rounds * kRoundUs + std::max(1.0, blocks) * messages * kMessageUs +
         sent * kUsPerByte + combined * kUsPerCombinedByte;
}

AllreduceAlgorithm choose_from_table(const AllreduceQuery& query) {
  AllreduceAlgorithm best = AllreduceAlgorithm::two_shot;
  double least_us = std::numeric_limits<double>::infinity();
  for (const TuningRule& rule : kTuningRules) {
    if (objection(rule, query) != nullptr || !rule.is_proposed(query)) continue;
    const double us = rule.reads ? 0 : estimated_us(rule.algorithm, query.size, query.num_bytes);
    if (us >= least_us) continue;
    best = rule.algorithm;
    least_us = us;
  }
  return best;
}

void require_usable(AllreduceAlgorithm requested, const AllreduceQuery& query, DType dtype) {
  const char* reason = nullptr;
  std::string usable;
  for (const TuningRule& rule : kTuningRules) {
    const char* const found = objection(rule, query);
    if (found == nullptr && rule.algorithm == requested) return;
    if (found == nullptr) usable += text(usable.empty() ? "" : ", ", name_of(rule.algorithm));
    // Of two rules with the name, the one for this topology says more.
    if (rule.algorithm == requested && (reason == nullptr || !rule.reads)) reason = found;
  }
  throw UsageError("TNT_ALLREDUCE_ALGORITHM='", name_of(requested),
                   "' cannot be used for an allreduce of ", comm::name_of(dtype), " among ",
                   query.size, query.topology == Topology::hierarchical ? " hosts" : " ranks",
                   ": it ", reason, ". Possible here: auto, ", usable, ".");
}

void log_choice(const AllreduceCase& wanted, AllreduceAlgorithm chosen, int rank) {
  if (!is_logged(LogLevel::debug)) return;
  static std::mutex mutex;
  static std::set<std::tuple<AllreduceAlgorithm, Topology, int>> known;
  {
    const std::lock_guard lock(mutex);
    if (!known.emplace(chosen, wanted.topology, wanted.num_members).second) return;
  }
  std::string what = text("allreduce of ", wanted.num_bytes, " bytes among ", wanted.num_members,
                          " ranks: ", name_of(chosen));
  if (wanted.topology == Topology::hierarchical) {
    what += text(" between ", wanted.num_hosts, " hosts");
  }
  log(LogLevel::debug, rank, what);
}

}  // namespace

AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested) {
  const AllreduceQuery query = query_of(wanted);
  if (requested == AllreduceAlgorithm::automatic) return choose_from_table(query);
  require_usable(requested, query, wanted.dtype);
  return requested;
}

AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested,
                                    const AbortState& abort_state) {
  const AllreduceAlgorithm chosen = choose_allreduce(wanted, requested);
  if (abort_state.world_rank_of(0) == abort_state.world_rank()) {
    log_choice(wanted, chosen, abort_state.world_rank());
  }
  return chosen;
}

MessagePattern pattern_of(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::one_shot:
      return {{.is_split = false, .radices = Radices::one}, true};
    case AllreduceAlgorithm::recursive_doubling:
      return {{.is_split = false, .radices = Radices::primes}, true};
    case AllreduceAlgorithm::halving_doubling:
      return {{.is_split = true, .radices = Radices::primes}, false};
    case AllreduceAlgorithm::pipelined:
      return {{.is_split = true, .radices = Radices::primes}, true};
    case AllreduceAlgorithm::two_shot:
    case AllreduceAlgorithm::automatic:
      break;
  }
  return {{.is_split = true, .radices = Radices::one}, true};
}

}  // namespace tnt::comm
