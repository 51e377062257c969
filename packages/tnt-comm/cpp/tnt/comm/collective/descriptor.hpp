#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

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

/// What distinguishes a collective for checks and messages.
struct CollectiveTraits {
  std::string_view name;
  bool has_data = false;
  bool reduces = false;
  bool has_root = false;
  bool takes_any_count = false;  ///< members may contribute arrays of different lengths
};

inline constexpr std::array<CollectiveTraits, 10> kCollectiveTraits{{
    {.name = "barrier"},
    {.name = "allreduce", .has_data = true, .reduces = true},
    {.name = "broadcast", .has_data = true, .has_root = true},
    {.name = "allgather", .has_data = true, .takes_any_count = true},
    {.name = "reduce_scatter", .has_data = true, .reduces = true},
    {.name = "alltoall", .has_data = true},
    {.name = "gather", .has_data = true, .has_root = true, .takes_any_count = true},
    {.name = "scatter", .has_data = true, .has_root = true},
    {.name = "creation", .takes_any_count = true},
    {.name = "unknown"},  // the byte of a rank that is none of these
}};

constexpr const CollectiveTraits& traits_of(CollectiveKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kCollectiveTraits.size() ? kCollectiveTraits[index] : kCollectiveTraits.back();
}

constexpr std::string_view name_of(CollectiveKind kind) {
  return traits_of(kind).name;
}

/// The ways to do an allreduce; select.hpp says when each is taken. The
/// numbers travel between ranks.
enum class AllreduceAlgorithm : std::uint8_t {
  automatic,  ///< what the table chooses
  one_shot,
  two_shot,
  recursive_doubling,
  halving_doubling,
  pipelined,
};

std::string_view name_of(AllreduceAlgorithm algorithm);

/// A name as TNT_ALLREDUCE_ALGORITHM holds it; UsageError for an unknown one,
/// which lists the known ones.
AllreduceAlgorithm parse_allreduce_algorithm(const std::string& name);

/// What a rank says about the collective it takes part in, so that the others
/// can see that they all mean the same. Travels as bytes.
struct Descriptor {
  std::uint64_t call_index = 0;  ///< how many collectives this channel had before
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::uint32_t root = 0;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;  ///< what the environment asks for
  std::uint64_t count = 0;  ///< elements of this rank's contribution
  std::uint64_t shape = 0;  ///< what must be equal in the shape, of most by pack_shape
  std::uint64_t label = 0;  ///< fingerprint of what the call is for; 0: not said

  /// True if the two ranks take part in the same collective. The counts of
  /// some may differ (see CollectiveTraits).
  bool matches(const Descriptor& other) const;

  /// True for the root; where there is none, for every member.
  bool is_root(int member) const {
    return !traits_of(kind).has_root || member == static_cast<int>(root);
  }

  /// Of this rank's contribution.
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
