// What a group says about how it works.

#include <gtest/gtest.h>

#include "captured_stderr.hpp"
#include "networks.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using tests::Job;
using tests::NamedJob;
using tests::run_job;

/// What is written to stderr while a job runs.
std::string output_of(const Job& job, const std::function<void(Runtime&)>& function) {
  const tests::CapturedStderr output;
  try {
    run_job(job, function);
  } catch (...) {
    ADD_FAILURE() << "the job failed";
  }
  return output.text();
}

int occurrences(const std::string& text, const std::string& phrase) {
  int count = 0;
  for (std::size_t at = text.find(phrase); at != std::string::npos;
       at = text.find(phrase, at + 1)) {
    ++count;
  }
  return count;
}

void allreduce_twice(Runtime& runtime) {
  std::vector<float> data(1234);
  for (int i = 0; i < 2; ++i) {
    runtime.world()
        ->start({.kind = CollectiveKind::allreduce,
                 .in = data.data(),
                 .out = data.data(),
                 .count = data.size(),
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0);
  }
}

TEST(Choice, IsToldOnceByOneRankAtDebug) {
  // Each choice is told once per process.
  for (const auto& [named, line] :
       {std::pair{tests::put_only(7), "allreduce of 4936 bytes among 7 ranks: one_shot\n"},
        {tests::on_hosts(3, 2),
         "allreduce of 4936 bytes among 6 ranks: one_shot between 3 hosts\n"}}) {
    Job job = named.job;
    job.change = [](Environment& environment) { environment.log_level = LogLevel::debug; };
    const std::string output = output_of(job, allreduce_twice);
    EXPECT_EQ(occurrences(output, text("DEBUG tnt-comm rank 0: ", line)), 1) << output;
    EXPECT_EQ(occurrences(output, "DEBUG"), 1) << output;
  }
  set_log_level(LogLevel::warning);
}

TEST(Choice, HostsThatAreNoBranchesOfTheTreeAreWarnedOfOnce) {
  NamedJob uneven = tests::on_hosts(2, 2);
  uneven.job.size = 3;
  uneven.job.network->hosts = {0, 0, 1};
  for (const auto& [job, phrase] : {std::pair{uneven.job, "between 1 and 2 ranks"},
                                    {tests::on_hosts(2, 3).job, "2 or 4 ranks on each"}}) {
    const std::string output = output_of(job, allreduce_twice);
    EXPECT_EQ(occurrences(output, "WARNING"), 1) << output;
    EXPECT_NE(output.find(phrase), std::string::npos) << output;
  }
  EXPECT_EQ(output_of(tests::on_hosts(2, 2).job, allreduce_twice), "");
  EXPECT_EQ(output_of(tests::put_only(3).job, allreduce_twice), "");
}

TEST(Choice, AnAlgorithmThatDoesNotFitIsRefusedBeforeAnythingIsSent) {
  const auto named = tests::with_algorithm(tests::shared_memory(2), "pipelined");
  run_job(named.job, [](Runtime& runtime) {
    float data = 1;
    EXPECT_THROW(runtime.world()->start({.kind = CollectiveKind::allreduce,
                                         .in = &data,
                                         .out = &data,
                                         .count = 1,
                                         .dtype = DType::float32,
                                         .op = ReduceOp::sum}),
                 UsageError);
    runtime.world()->start(Call{})->wait(0);  // nothing is broken
  });
}

}  // namespace
}  // namespace tnt::comm
