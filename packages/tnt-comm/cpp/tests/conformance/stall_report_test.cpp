// What is said of a wait that is long, but no error.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "networks.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/fusion/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::Job;
using tests::NamedJob;
using tests::run_job;

constexpr int kLate = 1;
constexpr auto kDelay = std::chrono::milliseconds(1200);
constexpr const char* kNoErrorYet = "No error yet";
constexpr const char* kIfThisLasts = "If this lasts, look for a call that not all ranks make";

/// Lets the late rank wait for the begin of what it will be late for.
class Appointment {
 public:
  void keep(Runtime& runtime) {
    if (runtime.environment().rank != kLate) {
      ++num_present_;
      return;
    }
    while (num_present_.load() < runtime.environment().size - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(kDelay);
  }

 private:
  std::atomic<int> num_present_{0};
};

class StallReport : public ::testing::TestWithParam<NamedJob> {
 protected:
  /// Lines that rank 0 has written about its wait for an operation while all ranks
  /// did this.
  static std::vector<std::string> reports_of(const std::string& operation,
                                             const std::function<void(Runtime&)>& function) {
    Job job = GetParam().job;
    job.change = [](Environment& environment) { environment.stall_report_s = 0.2; };
    ::testing::internal::CaptureStderr();
    run_job(job, function);
    std::istringstream output(::testing::internal::GetCapturedStderr());
    const std::string begin = text("rank 0: ", operation);
    std::vector<std::string> reports;
    for (std::string line; std::getline(output, line);) {
      if (line.find(begin) != std::string::npos) reports.push_back(line);
    }
    return reports;
  }

  /// Of a call that rank 1 makes late, all others in time.
  static void expect_calm_then_advice(const std::vector<std::string>& reports) {
    ASSERT_GE(reports.size(), 2U);
    for (const std::string& report : reports) {
      EXPECT_NE(report.find("for rank 1 (host"), std::string::npos) << report;
      EXPECT_NE(report.find("has not called it yet"), std::string::npos) << report;
      const bool is_first = &report == &reports.front();
      EXPECT_EQ(report.find(kNoErrorYet) != std::string::npos, is_first) << report;
      EXPECT_EQ(report.find(kIfThisLasts) != std::string::npos, !is_first) << report;
    }
  }
};

TEST_P(StallReport, OfALateCallIsNoErrorAtFirst) {
  Appointment appointment;
  expect_calm_then_advice(reports_of(
      "call 0, barrier() 'fit' from a.py:1, of group 'world' has waited", [&](Runtime& runtime) {
        appointment.keep(runtime);
        runtime.world()->start_barrier(Group::Driver::caller, {"fit", "a.py:1"})->wait(0);
      }));
}

TEST_P(StallReport, OfTheNextCallIsNoErrorAtFirst) {
  Appointment appointment;
  expect_calm_then_advice(reports_of("call 1, barrier(), of", [&](Runtime& runtime) {
    runtime.world()->start_barrier()->wait(0);
    appointment.keep(runtime);
    runtime.world()->start_barrier()->wait(0);
  }));
}

TEST_P(StallReport, OfALateBucketIsNoErrorAtFirst) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{200000}}) {
    Appointment appointment;
    expect_calm_then_advice(reports_of("step 0 of bucket 0", [&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), FusionPlan({{"kernel", DType::float32, count}}, 0),
                              "gradients");
      std::vector<float> data(count);
      appointment.keep(runtime);
      reducer.start(0, data.data(), 1.0);
      reducer.finish(0, data.data(), 0);
    }));
  }
}

TEST_P(StallReport, OfThisRanksOwnDelayHasNoAdvice) {
  const auto reports = reports_of("step 0 of bucket 0", [](Runtime& runtime) {
    const FusionPlan plan({{"kernel", DType::float32, 10}, {"bias", DType::float32, 10}}, 1 << 20);
    GradientReducer reducer(runtime.world(), plan, "gradients");
    if (runtime.environment().rank != 0) return;
    std::vector<float> data(10);
    reducer.start(0, data.data(), 1.0);
    try {
      reducer.finish(0, data.data(), 1.0);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    }
  });
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
