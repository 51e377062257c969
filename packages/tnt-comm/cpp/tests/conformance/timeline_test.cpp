// Timelines of several ranks: clocks, and what they leave.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "thread_ranks.hpp"
#include "tnt/comm/communicator/runtime.hpp"

namespace tnt::comm {
namespace {

using tests::run_threads;

TEST(ClockOffset, LiesWithinItsError) {
  run_threads(4, [](Runtime& runtime) {
    const std::int64_t rank = runtime.environment().rank;
    const std::int64_t skew = 3'600'000'000'000 * (rank % 2 == 0 ? rank : -rank);
    const ClockOffset found =
        measure_clock_offset(*runtime.world(), [skew] { return now_ns() + skew; });
    EXPECT_LE(std::abs(found.offset_ns + skew), found.error_ns);
    EXPECT_LT(found.error_ns, 1'000'000'000);
  });
}

TEST(Timeline, RanksWithoutPythonLeaveTheirRecords) {
  const auto path = std::filesystem::temp_directory_path() / text("tnt-trace-", ::getpid());
  const auto body = [](Runtime& runtime) { runtime.world()->start(Call{})->wait(0); };
  run_threads(2, body, [&](Environment& environment) { environment.timeline = path; });
  for (int rank = 0; rank < 2; ++rank) {
    const std::string records = records_path(path, rank);
    std::ostringstream content;
    content << std::ifstream(records).rdbuf();
    EXPECT_TRUE(content.str().starts_with("tnt-comm records 1\n"));
    EXPECT_NE(content.str().find("barrier"), std::string::npos);
    EXPECT_THROW(write_new_file(records, ""), Error);  // never replaces a file
    EXPECT_TRUE(std::filesystem::remove(records));
  }
}

}  // namespace
}  // namespace tnt::comm
