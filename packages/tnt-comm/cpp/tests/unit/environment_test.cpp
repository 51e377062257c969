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
                                             {"TNT_TRANSPORT", "mpi"},
                                             {"TNT_UCX_RDMA", "yes"},
                                             {"TNT_GPU_SUMS", "nccl"},
                                             {"TNT_UCX_RDMA", ""}}) {
    EXPECT_THROW(parse(with(name, value)), UsageError) << name;
  }
  EXPECT_THROW(parse(with("TNT_TIMEOUT_S", "inf")), UsageError);
  EXPECT_THROW(parse(with("TNT_TIMEOUT_S", "")), UsageError);
}

TEST(Environment, LevelsAndAlgorithmsAreNames) {
  EXPECT_EQ(parse(kTwoRanks).log_level, LogLevel::warning);
  EXPECT_EQ(parse(with("TNT_LOG_LEVEL", "DEBUG")).log_level, LogLevel::debug);
  EXPECT_EQ(parse(kTwoRanks).allreduce_algorithm, "auto");
  EXPECT_EQ(parse(with("TNT_ALLREDUCE_ALGORITHM", "two_shot")).allreduce_algorithm, "two_shot");
  EXPECT_TRUE(parse(kTwoRanks).sum_tree.empty());
  EXPECT_EQ(parse(with("TNT_SUM_TREE", " 1x2x1 ")).sum_tree, (std::vector<int>{1, 2, 1}));
}

TEST(Environment, BlanksAroundAValueDoNotCount) {
  const Environment environment = parse({{"TNT_RANK", " 1"},
                                         {"TNT_SIZE", "2\t"},
                                         {"TNT_JOB_ID", " abcd1234 "},
                                         {"TNT_TIMEOUT_S", " 5"},
                                         {"TNT_TRANSPORT", " gpi2\n"},
                                         {"TNT_TIMELINE", " run 1.json "},
                                         {"TNT_GPI2_LIBRARY", "  "}});
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.size, 2);
  EXPECT_EQ(environment.job_id, "abcd1234");
  EXPECT_EQ(environment.timeout_s, 5.0);
  EXPECT_EQ(environment.transport, "gpi2");
  EXPECT_EQ(environment.timeline, "run 1.json");
  EXPECT_EQ(environment.gpi2_library, "");
}

TEST(Environment, RanksThatMeetSomewhereNeedNoNameOfTheJob) {
  const Environment environment = parse({{"TNT_RANK", "1"},
                                         {"TNT_SIZE", "2"},
                                         {"TNT_TRANSPORT", "ucx"},
                                         {"TNT_RENDEZVOUS", "alpha:29400"}});
  EXPECT_EQ(environment.job_id, "rendezvous29400");
}

TEST(Environment, WhatSumsTensorsOfGpusIsChosenUnlessTheUserDecides) {
  EXPECT_EQ(parse(kTwoRanks).gpu_sums, GpuSums::automatic);
  EXPECT_EQ(parse(with("TNT_GPU_SUMS", "host")).gpu_sums, GpuSums::host);
  EXPECT_EQ(parse(with("TNT_GPU_SUMS", "IPC ")).gpu_sums, GpuSums::ipc);
}

TEST(Environment, RdmaIsUsedWhereItIsUnlessTheUserDecides) {
  EXPECT_EQ(parse(kTwoRanks).ucx_rdma, RdmaUse::automatic);
  EXPECT_EQ(parse(with("TNT_UCX_RDMA", "auto")).ucx_rdma, RdmaUse::automatic);
  EXPECT_EQ(parse(with("TNT_UCX_RDMA", " On")).ucx_rdma, RdmaUse::on);
  EXPECT_EQ(parse(with("TNT_UCX_RDMA", "off")).ucx_rdma, RdmaUse::off);
}

TEST(Environment, WordsMayBeInAnyCase) {
  EXPECT_EQ(parse(with("TNT_LOG_LEVEL", "Info")).log_level, LogLevel::info);
  EXPECT_EQ(parse(with("TNT_TRANSPORT", "SHM")).transport, "shm");
  EXPECT_EQ(parse(with("TNT_ALLREDUCE_ALGORITHM", "Two_Shot")).allreduce_algorithm, "two_shot");
}

TEST(Environment, IntegersHaveDigitsOnly) {
  EXPECT_EQ(parse(with("TNT_GPI2_PORT", "1024")).gpi2_port, 1024);
  EXPECT_EQ(parse(with("TNT_GPI2_PORT", "64511")).gpi2_port, 64511);
  EXPECT_EQ(parse(with("TNT_GPI2_PORT", "0020000")).gpi2_port, 20000);
  for (const char* value : {"", " ", "1023", "64512", "65000", "+20000", "-20000", "20_000",
                            "0x5000", "2e4", "20000.0", "2 0000", "99999999999999999999"}) {
    EXPECT_THROW(parse(with("TNT_GPI2_PORT", value)), UsageError) << value;
  }
}

std::string refusal(const Variables& variables) {
  try {
    parse(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Environment, ATreeHasCountsWhoseProductIsTheNumberOfRanks) {
  for (const char* value : {"", "x", "3", "1x1", "2x", "x2", "2x2", "2x0", "-1x-2", "2 x1", "2X1",
                            "two", "99999999999x2", "2147483647x2147483647x2"}) {
    const std::string text = refusal(with("TNT_SUM_TREE", value));
    EXPECT_NE(text.find("whose product is the number of ranks, 2"), std::string::npos) << text;
  }
}

TEST(Environment, SecondsAreDecimalNumbers) {
  for (const auto& [value, expected] : std::map<std::string, double>{
           {"5", 5.0}, {"0.5", 0.5}, {".5", 0.5}, {"5.", 5.0}, {"1e3", 1000.0}, {"1E-2", 0.01}}) {
    EXPECT_EQ(parse(with("TNT_STALL_S", value)).stall_report_s, expected) << value;
  }
  for (const char* value : {"", " ", "0", "0.0", "-1", "1_0", "1,5", "nan", "inf", "infinity",
                            "0x10", "1e999", "5s", "e3"}) {
    EXPECT_THROW(parse(with("TNT_STALL_S", value)), UsageError) << value;
  }
}

TEST(Environment, TheFormerNameOfTheStallTimeCountsWithoutTheOtherOne) {
  EXPECT_EQ(parse(with("TNT_STALL_REPORT_S", "2")).stall_report_s, 2.0);
  EXPECT_EQ(parse({{"TNT_STALL_REPORT_S", "2"}, {"TNT_STALL_S", "3"}}).stall_report_s, 3.0);
}

TEST(Environment, RanksMayStartForTwoMinutesUnlessAStallTimeIsStated) {
  EXPECT_EQ(parse({}).start_report_s, 120.0);
  EXPECT_EQ(parse(with("TNT_STALL_S", "3")).start_report_s, 3.0);
  EXPECT_EQ(parse(with("TNT_STALL_REPORT_S", "2")).start_report_s, 2.0);
}

TEST(Environment, AnErrorNamesVariableLimitsAndValueAndSaysToCorrectASettingOfTheUser) {
  EXPECT_EQ(refusal({{"TNT_GPI2_PORT", "65000"}}),
            "Environment variable TNT_GPI2_PORT must be an integer in [1024, 64511]. "
            "Received: TNT_GPI2_PORT='65000'. Correct it or unset it.");
  for (const auto& [name, value] : Variables{{"TNT_TIMEOUT_S", "1_0"},
                                             {"TNT_LOG_LEVEL", "loud"},
                                             {"TNT_TIMELINE", ""},
                                             {"TNT_TRANSPORT", "mpi"},
                                             {"GASPI_RANK", "one"}}) {
    const std::string text = refusal({{name, value}});
    EXPECT_NE(text.find(name + "='" + value + "'. Correct it or unset it."), std::string::npos)
        << text;
  }
}

TEST(Environment, AnErrorInWhatDescribesARankSaysHowToRunWithoutTheLauncher) {
  for (const auto& [name, value] : Variables{{"TNT_RANK", "2"},
                                             {"TNT_SIZE", "two"},
                                             {"TNT_LOCAL_RANK", "3"},
                                             {"TNT_LOCAL_SIZE", "3"},
                                             {"TNT_NODE_RANK", "1"},
                                             {"TNT_NUM_NODES", "0"},
                                             {"TNT_JOB_ID", "a b c d e f"}}) {
    const std::string text = refusal(with(name, value));
    EXPECT_NE(text.find(name + "='" + value + "'. Whatever starts the ranks sets it"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("unset TNT_RANK, TNT_SIZE, TNT_LOCAL_RANK, TNT_LOCAL_SIZE, TNT_NODE_RANK, "
                        "TNT_NUM_NODES, TNT_JOB_ID."),
              std::string::npos)
        << text;
  }
}

TEST(Environment, HalfAnEnvironmentIsAnError) {
  EXPECT_THROW(parse({{"TNT_RANK", "0"}}), UsageError);
  EXPECT_THROW(parse({{"TNT_SIZE", "1"}}), UsageError);
  EXPECT_THROW(parse({{"TNT_RANK", "0"}, {"TNT_SIZE", "2"}}), UsageError);  // no job id
}

}  // namespace
}  // namespace tnt::comm
