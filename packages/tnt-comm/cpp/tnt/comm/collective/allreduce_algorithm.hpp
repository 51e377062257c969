#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tnt::comm {

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

}  // namespace tnt::comm
