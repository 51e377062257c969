#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tnt::comm {

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

}  // namespace tnt::comm
