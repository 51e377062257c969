#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/collective/allreduce_algorithm.hpp"
#include "tnt/comm/collective/collective_kind.hpp"

namespace tnt::comm {

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
  std::uint64_t shape = 0;  ///< fingerprint of what must be equal in the shape
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

}  // namespace tnt::comm
