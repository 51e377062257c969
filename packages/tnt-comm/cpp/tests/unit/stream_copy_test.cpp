#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

// Every alignment of both ends, and nothing around the destination changes.
void check(KernelTable::StreamingCopy stream) {
  std::vector<unsigned char> source(1000);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(1));
  for (const std::size_t length : {0, 1, 63, 64, 65, 200, 640}) {
    for (std::size_t to = 0; to < 66; to += 5) {
      for (std::size_t from = 0; from < 66; from += 13) {
        std::vector<unsigned char> target(1000, 0);
        stream(target.data() + to, source.data() + from, length);
        std::vector<unsigned char> expected(1000, 0);
        for (std::size_t i = 0; i < length; ++i) expected[to + i] = source[from + i];
        ASSERT_EQ(target, expected) << length << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(StreamCopy, CopiesAnyLengthAtAnyAlignment) {
  check(baseline_kernels().stream);
  check(kernels().stream);
}

TEST(StreamCopy, OfNothingMayHaveNullPointers) {
  stream_copy(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace tnt::comm
