#include "tnt/comm/communicator/clock_offset.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr int kNumRounds = 16;

std::int64_t of_first_member(Group& group, std::int64_t own) {
  const std::string digits = group.gather_texts(text(own), "a common time").front();
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < kNumRounds; ++round) {
    const std::int64_t begin = now_ns();
    const std::int64_t first_begin = of_first_member(group, begin);
    const std::int64_t end = now_ns();
    const std::int64_t first_end = of_first_member(group, end);
    least = std::max(least, first_begin - end);
    most = std::min(most, first_end - begin);
  }
  if (group.rank() == 0) return {};
  return {least + (most - least) / 2, (most - least + 1) / 2};
}

}  // namespace tnt::comm
