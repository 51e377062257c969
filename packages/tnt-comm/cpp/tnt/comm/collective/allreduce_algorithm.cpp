#include "tnt/comm/collective/allreduce_algorithm.hpp"

#include <array>
#include <cstddef>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr std::array<std::string_view, 6> kNames = {
    "auto", "one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined"};

}  // namespace

std::string_view name_of(AllreduceAlgorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kNames.size() ? kNames[index] : "unknown";  // what another rank sends may be
}

AllreduceAlgorithm parse_allreduce_algorithm(const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<AllreduceAlgorithm>(i);
    known += text(i == 0 ? "" : ", ", kNames[i]);
  }
  throw UsageError(text("Environment variable TNT_ALLREDUCE_ALGORITHM must be one of ", known,
                        ". Received: TNT_ALLREDUCE_ALGORITHM='", name,
                        "'. Correct it or unset it."));
}

}  // namespace tnt::comm
