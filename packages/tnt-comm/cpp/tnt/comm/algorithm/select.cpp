#include "tnt/comm/algorithm/select.hpp"

#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "tnt/comm/algorithm/slices.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/log.hpp"
#include "tnt/comm/base/text.hpp"

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

// The largest message that is exchanged in one piece; also what the landing
// area of a group's window holds.
constexpr std::size_t kPieceBytes = 256 * 1024;

constexpr bool is_half(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

// What the table is asked about: the message that one rank exchanges, and with
// how many others.
struct Question {
  Topology topology;
  bool rounds_once;  // no partial sum may be rounded
  int size;
  std::size_t num_bytes;
};

Question question_of(const AllreduceCase& wanted) {
  if (wanted.topology != Topology::two_level) {
    return {wanted.topology, is_half(wanted.dtype), wanted.num_members, wanted.num_bytes};
  }
  // Each rank of a host exchanges a slice; partial sums are float32.
  const auto ranks_per_host = static_cast<std::size_t>(wanted.num_members / wanted.num_hosts);
  const std::size_t widened = wanted.num_bytes * (is_half(wanted.dtype) ? 2 : 1);
  return {wanted.topology, false, wanted.num_hosts, widened / ranks_per_host};
}

std::size_t num_copies(int size, Radices radices) {
  std::size_t copies = 0;
  for (const Level& level : levels_of(size, radices)) {
    copies += static_cast<std::size_t>(level.radix - 1);
  }
  return copies;
}

bool is_reached_by_reading(const Question& question) {
  return question.topology == Topology::readable;
}
bool is_small_for_reading(const Question& question) {
  return question.num_bytes <= direct_allreduce_limit_bytes(question.size);
}
bool is_large_for_reading(const Question& question) {
  return !is_small_for_reading(question);
}
bool do_all_copies_fit(const Question& question) {
  return num_copies(question.size, Radices::one) * question.num_bytes <= kPieceBytes;
}
bool do_copies_of_levels_fit(const Question& question) {
  return num_copies(question.size, Radices::primes) * question.num_bytes <= kPieceBytes;
}
bool is_one_piece(const Question& question) {
  return question.num_bytes <= kPieceBytes;
}
bool is_one_piece_or_rounded_once(const Question& question) {
  return question.rounds_once || is_one_piece(question);
}
bool is_several_pieces(const Question& question) {
  return !is_one_piece(question);
}

// The table. A row can be used where its memory and its arithmetic allow it
// (`reads`: in groups whose members read each other's memory), and is proposed
// for the messages it is meant for; of the proposed rows the one with the least
// estimated time is taken, of equal ones the first.
struct Row {
  AllreduceAlgorithm algorithm;
  bool reads;
  bool sums_in_parts;  // rounds 16-bit floats more than once
  bool is_one_step;    // takes what fits in one window
  bool (*is_proposed)(const Question& question);
};
constexpr Row kRows[] = {
    {AllreduceAlgorithm::direct, true, false, true, is_small_for_reading},
    {AllreduceAlgorithm::sliced, true, false, false, is_large_for_reading},
    {AllreduceAlgorithm::direct, false, false, false, do_all_copies_fit},
    {AllreduceAlgorithm::recursive_doubling, false, true, false, do_copies_of_levels_fit},
    {AllreduceAlgorithm::sliced, false, false, false, is_one_piece_or_rounded_once},
    {AllreduceAlgorithm::halving_doubling, false, true, false, is_one_piece},
    {AllreduceAlgorithm::pipelined, false, true, false, is_several_pieces},
};

// Why a row cannot be used; null if it can.
const char* objection(const Row& row, const Question& question) {
  if (row.reads && !is_reached_by_reading(question)) {
    return "needs ranks that read each other's memory";
  }
  if (!row.reads && is_reached_by_reading(question)) {
    return "exchanges messages, but the ranks of this group read each other's memory";
  }
  if (row.sums_in_parts && question.rounds_once) {
    return "would round 16-bit floats more than once";
  }
  if (row.is_one_step && question.num_bytes > kPieceBytes) {
    return "takes at most 256 KiB among ranks that read each other's memory";
  }
  return nullptr;
}

AllreduceAlgorithm choose_from_table(const Question& question) {
  AllreduceAlgorithm best = AllreduceAlgorithm::sliced;
  double least_us = std::numeric_limits<double>::infinity();
  for (const Row& row : kRows) {
    if (objection(row, question) != nullptr || !row.is_proposed(question)) continue;
    const double us =
        row.reads ? 0 : estimated_us(row.algorithm, question.size, question.num_bytes);
    if (us >= least_us) continue;
    best = row.algorithm;
    least_us = us;
  }
  return best;
}

void require_usable(AllreduceAlgorithm requested, const Question& question, DType dtype) {
  const char* reason = nullptr;
  std::string usable;
  for (const Row& row : kRows) {
    const char* const found = objection(row, question);
    if (found == nullptr && row.algorithm == requested) return;
    if (found == nullptr) usable += text(usable.empty() ? "" : ", ", name_of(row.algorithm));
    // Of two rows with the name, the one for this topology says more.
    if (row.algorithm == requested && (reason == nullptr || !row.reads)) reason = found;
  }
  throw UsageError(text("TNT_ALLREDUCE_ALGORITHM='", name_of(requested),
                        "' cannot be used for an allreduce of ", comm::name_of(dtype), " among ",
                        question.size,
                        question.topology == Topology::two_level ? " hosts" : " ranks", ": it ",
                        reason, ". Here these can: auto, ", usable, "."));
}

void log_choice(const AllreduceCase& wanted, AllreduceAlgorithm chosen, int rank) {
  if (!is_logged(LogLevel::debug)) return;
  static std::mutex mutex;
  static std::set<std::tuple<AllreduceAlgorithm, Topology, int>> known;
  {
    const std::lock_guard lock(mutex);
    if (!known.emplace(chosen, wanted.topology, wanted.num_members).second) return;
  }
  const std::string between = wanted.topology == Topology::two_level
                                  ? text(" between ", wanted.num_hosts, " hosts")
                                  : std::string();
  log(LogLevel::debug, rank,
      text("allreduce of ", wanted.num_bytes, " bytes among ", wanted.num_members,
           " ranks: ", name_of(chosen), between));
}

}  // namespace

AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested) {
  const Question question = question_of(wanted);
  if (requested == AllreduceAlgorithm::automatic) return choose_from_table(question);
  require_usable(requested, question, wanted.dtype);
  return requested;
}

AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested,
                                    const Health& health) {
  const AllreduceAlgorithm chosen = choose_allreduce(wanted, requested);
  if (health.world_rank_of(0) == health.world_rank()) {
    log_choice(wanted, chosen, health.world_rank());
  }
  return chosen;
}

MessagePattern pattern_of(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::direct:
      return {{.is_split = false, .radices = Radices::one}, true};
    case AllreduceAlgorithm::recursive_doubling:
      return {{.is_split = false, .radices = Radices::primes}, true};
    case AllreduceAlgorithm::halving_doubling:
      return {{.is_split = true, .radices = Radices::primes}, false};
    case AllreduceAlgorithm::pipelined:
      return {{.is_split = true, .radices = Radices::primes}, true};
    case AllreduceAlgorithm::sliced:
    case AllreduceAlgorithm::automatic:
      break;
  }
  return {{.is_split = true, .radices = Radices::one}, true};
}

double estimated_us(AllreduceAlgorithm algorithm, int size, std::size_t num_bytes) {
  const MessagePattern pattern = pattern_of(algorithm);
  const auto bytes = static_cast<double>(num_bytes);
  const double phases = pattern.exchange.is_split ? 2 : 1;
  const double rounds =
      phases * static_cast<double>(levels_of(size, pattern.exchange.radices).size());
  const double messages = phases * static_cast<double>(num_copies(size, pattern.exchange.radices));
  const double share = static_cast<double>(size - 1) / size;
  const double combined = pattern.exchange.is_split ? share * bytes : messages * bytes;
  const double sent = pattern.exchange.is_split ? 2 * share * bytes : combined;
  // Pieces that follow each other closely pay for the rounds once.
  const auto pieces = static_cast<double>((num_bytes + kPieceBytes - 1) / kPieceBytes);
  const double waits = pattern.has_many_pieces_under_way ? 1 : std::max(1.0, pieces);
  return waits * rounds * kRoundUs + std::max(1.0, pieces) * messages * kMessageUs +
         sent * kUsPerByte + combined * kUsPerCombinedByte;
}

}  // namespace tnt::comm
