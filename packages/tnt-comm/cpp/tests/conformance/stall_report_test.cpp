// What is said of a wait that is long, but no error.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "captured_stderr.hpp"
#include "networks.hpp"
#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/fusion/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::CapturedStderr;
using tests::Job;
using tests::NamedJob;
using tests::run_job;

constexpr int kLate = 1;
constexpr double kStallReportS = 0.3;
constexpr const char* kNoErrorYet = "No error yet";
constexpr const char* kIfThisLasts = "If this lasts, look for a call that not all ranks make";

std::vector<std::string> lines_with(const std::string& phrase, const CapturedStderr& output) {
  std::istringstream text(output.text());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.find(phrase) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

/// What rank 0 reports of a call that rank 1 makes when two reports are written; the other ranks
/// make it before rank 0.
class LateCall {
 public:
  explicit LateCall(const std::string& operation) : report_(text("rank 0: ", operation)) {}

  /// Lets this rank make the call in its turn.
  void make(Runtime& runtime, const std::function<void()>& call) {
    const Environment& environment = runtime.environment();
    if (environment.rank == kLate) wait_until([&] { return reports().size() >= 2; });
    if (environment.rank == 0) {
      wait_until([&] { return num_started_.load() == environment.size - 2; });
    }
    call();
    if (environment.rank != 0) ++num_started_;
  }

  std::vector<std::string> reports() const { return lines_with(report_, output_); }

 private:
  static void wait_until(const std::function<bool()>& condition) {
    const Deadline deadline(60);
    while (!condition()) {
      if (deadline.is_over()) throw Error(ErrorKind::timeout, "the other ranks made no call");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string report_;
  CapturedStderr output_;
  std::atomic<int> num_started_{0};
};

class StallReport : public ::testing::TestWithParam<NamedJob> {
 protected:
  static void run(const std::function<void(Runtime&)>& function) {
    Job job = GetParam().job;
    job.change = [](Environment& environment) { environment.stall_report_s = kStallReportS; };
    run_job(job, function);
  }

  static void expect_calm_then_advice(const LateCall& late) {
    const std::vector<std::string> reports = late.reports();
    ASSERT_GE(reports.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& report = reports[i];
      EXPECT_NE(report.find("for rank 1 (host"), std::string::npos) << report;
      EXPECT_NE(report.find("has not called it yet"), std::string::npos) << report;
      EXPECT_EQ(report.find(kNoErrorYet) != std::string::npos, i == 0) << report;
      EXPECT_EQ(report.find(kIfThisLasts) != std::string::npos, i == 1) << report;
    }
  }
};

TEST_P(StallReport, OfALateCallIsNoErrorAtFirst) {
  LateCall late("call 0, barrier() 'fit' from a.py:1, of group 'world' has waited");
  run([&](Runtime& runtime) {
    std::shared_ptr<Ticket> barrier;
    late.make(runtime, [&] {
      barrier = runtime.world()->start_barrier(Group::Driver::caller, {"fit", "a.py:1"});
    });
    barrier->wait(0);
  });
  expect_calm_then_advice(late);
}

TEST_P(StallReport, OfTheNextCallIsNoErrorAtFirst) {
  LateCall late("call 1, barrier(), of");
  run([&](Runtime& runtime) {
    runtime.world()->start_barrier()->wait(0);
    std::shared_ptr<Ticket> barrier;
    late.make(runtime, [&] { barrier = runtime.world()->start_barrier(); });
    barrier->wait(0);
  });
  expect_calm_then_advice(late);
}

TEST_P(StallReport, OfALateBucketIsNoErrorAtFirst) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{200000}}) {
    LateCall late("step 0 of bucket 0");
    run([&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), FusionPlan({{"kernel", DType::float32, count}}, 0),
                              "gradients");
      std::vector<float> data(count);
      late.make(runtime, [&] { reducer.start(0, data.data(), 1.0); });
      reducer.finish(0, data.data(), 0);
    });
    expect_calm_then_advice(late);
  }
}

TEST_P(StallReport, OfThisRanksOwnDelayHasNoAdvice) {
  const CapturedStderr output;
  run([](Runtime& runtime) {
    const FusionPlan plan({{"kernel", DType::float32, 10}, {"bias", DType::float32, 10}}, 1 << 20);
    GradientReducer reducer(runtime.world(), plan, "gradients");
    if (runtime.environment().rank != 0) return;
    std::vector<float> data(10);
    reducer.start(0, data.data(), 1.0);
    try {
      reducer.finish(0, data.data(), 2.0);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    }
  });
  const auto reports = lines_with("rank 0: step 0 of bucket 0", output);
  ASSERT_FALSE(reports.empty());
  for (const std::string& report : reports) {
    EXPECT_NE(report.find("this rank itself"), std::string::npos) << report;
    EXPECT_EQ(report.find(kNoErrorYet), std::string::npos) << report;
    EXPECT_EQ(report.find(kIfThisLasts), std::string::npos) << report;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, StallReport,
                         ::testing::Values(tests::shared_memory(2), tests::put_only(3),
                                           tests::on_hosts(2, 2)),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
