#include "tnt/comm/base/environment.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Environment parse(const Variables& variables) {
  return parse_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

const Variables kTwoRanks = {{"TNT_RANK", "1"}, {"TNT_SIZE", "2"}, {"TNT_JOB_ID", "abcd1234"}};

Variables with(const std::string& name, const std::string& value) {
  Variables variables = kTwoRanks;
  variables[name] = value;
  return variables;
}

TEST(Environment, EmptyIsAWorldOfOne) {
  const Environment environment = parse({});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.size, 1);
  EXPECT_EQ(environment.timeout_s, 600.0);
  EXPECT_EQ(environment.timeline, "");
}

TEST(Environment, LocalValuesDefaultToTheGlobalOnes) {
  const Environment environment = parse(kTwoRanks);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_size, 2);
}

TEST(Environment, TheTimelineIsAPath) {
  EXPECT_EQ(parse({{"TNT_TIMELINE", "traces/run 1.json"}}).timeline, "traces/run 1.json");
}

TEST(Environment, MalformedValuesAreErrors) {
  for (const auto& [name, value] : Variables{{"TNT_RANK", "2"},
                                             {"TNT_SIZE", "two"},
                                             {"TNT_LOCAL_SIZE", "3"},
                                             {"TNT_JOB_ID", "a b c d e f"},
                                             {"TNT_TIMEOUT_S", "-1"},
                                             {"TNT_LOG_LEVEL", "loud"},
                                             {"TNT_TIMELINE", ""},
                                             {"TNT_TRANSPORT", "mpi"}}) {
    EXPECT_THROW(parse(with(name, value)), UsageError) << name;
  }
  EXPECT_THROW(parse(with("TNT_TIMEOUT_S", "inf")), UsageError);
  EXPECT_THROW(parse(with("TNT_TIMEOUT_S", "")), UsageError);
}

TEST(Environment, LevelsAndAlgorithmsAreNames) {
  EXPECT_EQ(parse(kTwoRanks).log_level, LogLevel::warning);
  EXPECT_EQ(parse(with("TNT_LOG_LEVEL", "DEBUG")).log_level, LogLevel::debug);
  EXPECT_EQ(parse(kTwoRanks).allreduce_algorithm, "auto");
  EXPECT_EQ(parse(with("TNT_ALLREDUCE_ALGORITHM", "sliced")).allreduce_algorithm, "sliced");
}

TEST(Environment, HalfAnEnvironmentIsAnError) {
  EXPECT_THROW(parse({{"TNT_RANK", "0"}}), UsageError);
  EXPECT_THROW(parse({{"TNT_SIZE", "1"}}), UsageError);
  EXPECT_THROW(parse({{"TNT_RANK", "0"}, {"TNT_SIZE", "2"}}), UsageError);  // no job id
}

}  // namespace
}  // namespace tnt::comm
