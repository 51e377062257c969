// Timelines of several ranks: clocks, and the file that they leave together.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "thread_ranks.hpp"
#include "tnt/comm/communicator/timeline_keeper.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::environment_of;
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

class TimelineFile : public ::testing::TestWithParam<int> {};

TEST_P(TimelineFile, HoldsEveryStepOfEveryBucketOfEveryRank) {
  const auto path = std::filesystem::temp_directory_path() / text("tnt-trace-", ::getpid());
  constexpr std::uint64_t kNumSteps = 3;
  const auto body = [](Runtime& runtime) {
    GradientReducer reducer(
        runtime.world(), {{{"a", DType::float32, 10}, {"b", DType::float32, 10}}, 0}, "g", "phase");
    for (std::uint64_t step = 0; step < kNumSteps; ++step) {
      std::vector<float> data(10);
      reducer.start(1, data.data(), 1.0);
      reducer.start(0, data.data(), 1.0);
      reducer.finish(0, data.data());
      reducer.finish(1, data.data());
    }
  };
  run_threads(GetParam(), body, [&](Environment& environment) { environment.timeline = path; });
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string trace = content.str();
  for (int rank = 0; rank < GetParam(); ++rank) {
    const auto count = [&](const std::string& name) {
      const std::string wanted = text("\"pid\":", rank, ",");
      std::size_t found = 0;
      std::istringstream lines(trace);
      for (std::string line; std::getline(lines, line);) {
        found += line.find(text("\"name\":\"", name, "\"")) != std::string::npos &&
                 line.find(wanted) != std::string::npos;
      }
      return found;
    };
    for (const char* state : {"ready", "started", "reduced", "finished"}) {
      EXPECT_EQ(count(state), 2 * kNumSteps) << state;
    }
    EXPECT_EQ(count("phase"), kNumSteps);
  }
  EXPECT_EQ(std::filesystem::remove(path), true);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".rank0"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, TimelineFile, ::testing::Values(1, 2, 3));

TEST(TimelineFile, AFolderThatIsMissingIsAnErrorAtTheStart) {
  Environment environment = environment_of(0, 1, "nofolder1");
  environment.timeline = "/nowhere/trace.json";
  EXPECT_THROW(Runtime{environment}, UsageError);
}

}  // namespace
}  // namespace tnt::comm
