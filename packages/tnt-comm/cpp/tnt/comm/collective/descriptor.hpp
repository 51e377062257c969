#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

/// What a caller says about a collective besides its arguments.
struct CallLabel {
  std::string_view label;   ///< what the call is for; must be equal on all ranks
  std::string_view caller;  ///< where it is made, such as "train.py:31"; shown, not compared

  /// Finds the caller if it is not given, which takes longer than a short call. Asked in the thread
  /// of the call; if that is going to wait, only when there is something to wait for.
  std::string (*find_caller)() = nullptr;

  /// What the call creates, such as "Gatherer 'rows'"; shown, not compared.
  std::string_view created = {};

  bool must_find_caller() const { return caller.empty() && find_caller != nullptr; }
};

/// The most bytes of a note, which is what messages show of a label.
inline constexpr std::size_t kMaxNoteBytes = 128;

/// Fingerprint of a label; 0 only if there is none.
std::uint64_t fingerprint_of(std::string_view label);

/// The note for messages: " 'fit: end of step' from train.py:31", or "". A long label loses its end
/// and a long caller its begin, between characters. Finds the caller if need be.
std::string note_of(const CallLabel& label);

/// The note of a call: "" unless it is given, which may be after the call has begun, as promised.
///
/// Threads: promise() before others know of it; give() once; the rest from any thread.
class CallNote {
 public:
  /// It will be given soon. Nobody is told of a mismatch before that.
  void promise() { is_given_.store(false, std::memory_order_relaxed); }

  void give(std::string text) {
    text_ = std::move(text);
    is_given_.store(true, std::memory_order_release);
  }

  bool is_given() const { return is_given_.load(std::memory_order_acquire); }
  std::string text() const { return is_given() ? text_ : std::string(); }

 private:
  std::atomic<bool> is_given_{true};
  std::string text_;
};

class AbortState;

/// The collectives; the numbers travel between ranks.
enum class CollectiveKind : std::uint8_t {
  barrier,
  allreduce,
  broadcast,
  allgather,
  reduce_scatter,
  alltoall,
  gather,
  scatter,
  creation,  ///< of something by all members together, which tell each other of what
};

/// What a member gets, beside the array that it gives.
enum class ResultLayout : std::uint8_t {
  none,
  same,    ///< an array of the same length
  part,    ///< this member's part of the rows
  parts,   ///< such a part from each member
  blocks,  ///< the arrays of all members, which may have different lengths
};

/// What distinguishes a collective for checks and messages.
struct CollectiveTraits {
  std::string_view name;
  ResultLayout result = ResultLayout::none;
  bool has_data = true;
  bool reduces = false;
  bool has_root = false;

  bool cuts_rows() const { return result == ResultLayout::part || result == ResultLayout::parts; }
  bool takes_any_count() const { return result == ResultLayout::blocks; }
};

inline constexpr std::array kCollectiveTraits = std::to_array<CollectiveTraits>({
    {.name = "barrier", .has_data = false},
    {.name = "allreduce", .result = ResultLayout::same, .reduces = true},
    {.name = "broadcast", .result = ResultLayout::same, .has_root = true},
    {.name = "allgather", .result = ResultLayout::blocks},
    {.name = "reduce_scatter", .result = ResultLayout::part, .reduces = true},
    {.name = "alltoall", .result = ResultLayout::parts},
    {.name = "gather", .result = ResultLayout::blocks, .has_root = true},
    {.name = "scatter", .result = ResultLayout::part, .has_root = true},
    {.name = "creation", .result = ResultLayout::blocks, .has_data = false},
    {.name = "unknown", .has_data = false},  // the byte of a rank that is none of these
});

constexpr const CollectiveTraits& traits_of(CollectiveKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kCollectiveTraits.size() ? kCollectiveTraits[index] : kCollectiveTraits.back();
}

constexpr std::string_view name_of(CollectiveKind kind) {
  return traits_of(kind).name;
}

/// How many kinds callers may ask for: those before `creation`.
inline constexpr auto kNumCallableKinds = static_cast<std::size_t>(CollectiveKind::creation);

static_assert([] {
  using enum CollectiveKind;
  return name_of(barrier) == "barrier" && name_of(allreduce) == "allreduce" &&
         name_of(broadcast) == "broadcast" && name_of(allgather) == "allgather" &&
         name_of(reduce_scatter) == "reduce_scatter" && name_of(alltoall) == "alltoall" &&
         name_of(gather) == "gather" && name_of(scatter) == "scatter" &&
         name_of(creation) == "creation";
}());

/// The ways to do an allreduce; see select.hpp for when. The numbers travel between ranks.
enum class AllreduceAlgorithm : std::uint8_t {
  automatic,  ///< what the table chooses
  one_shot,
  two_shot,
  recursive_doubling,
  halving_doubling,
  pipelined,
};

std::string_view name_of(AllreduceAlgorithm algorithm);

/// A name as in TNT_ALLREDUCE_ALGORITHM; UsageError, which lists the known ones, for any other.
AllreduceAlgorithm parse_allreduce_algorithm(const std::string& name);

/// What a rank says about the collective it takes part in, so that the others
/// can see that they all mean the same. Travels as bytes.
struct Descriptor {
  std::uint64_t call_index = 0;  ///< how many collectives this ring had before
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::uint32_t root = 0;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;  ///< what the environment asks for
  std::uint64_t count = 0;  ///< elements of this rank's contribution
  std::uint64_t shape = 0;  ///< by pack_shape, or pack_row_shape where the counts differ
  std::uint64_t label = 0;  ///< fingerprint of what the call is for; 0: not said

  /// Whether two ranks take part in the same collective. Some counts may differ (CollectiveTraits).
  bool matches(const Descriptor& other) const;

  /// True for the root; where there is none, for every member.
  bool is_root(int member) const {
    return !traits_of(kind).has_root || member == static_cast<int>(root);
  }

  std::uint64_t num_bytes() const { return count * size_of(dtype); }

  /// Equal for descriptors that match, and for others by an unlikely accident.
  std::uint64_t fingerprint() const;

  /// For messages: "allreduce(float32, 100 elements, sum)".
  std::string describe() const;
};
static_assert(std::is_trivially_copyable_v<Descriptor>);

/// What a member of a group calls, and its note (see CallLabel).
struct MadeCall {
  Descriptor descriptor;
  std::string note;
};

/// The error that every member of a group throws when their calls differ: the
/// same text on all of them. `calls` holds what each member calls.
Error mismatch_error(const AbortState& abort_state, const std::vector<MadeCall>& calls);

}  // namespace tnt::comm
