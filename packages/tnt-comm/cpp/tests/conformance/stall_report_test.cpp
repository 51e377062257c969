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
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

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

void wait_until(const std::function<bool()>& condition) {
  const Deadline deadline(60);
  while (!condition()) {
    if (deadline.is_over()) throw Error(ErrorKind::timeout, "the other ranks did not come");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Lets `factor` times the wait pass that is reported.
void pass(double factor) {
  std::this_thread::sleep_for(std::chrono::duration<double>(factor * kStallReportS));
}

/// What rank 0 reports of a call that rank 1 makes long after the report; the other ranks make it
/// before rank 0.
class LateCall {
 public:
  explicit LateCall(const std::string& operation) : report_(text("rank 0: ", operation)) {}

  /// Lets this rank make the call in its turn.
  void make(Runtime& runtime, const std::function<void()>& call) {
    const Environment& environment = runtime.environment();
    if (environment.rank == kLate) {
      wait_until([&] { return !reports().empty(); });
      pass(4);
    }
    if (environment.rank == 0) {
      wait_until([&] { return num_started_.load() == environment.size - 2; });
    }
    call();
    if (environment.rank != 0) ++num_started_;
  }

  std::vector<std::string> reports() const { return lines_with(report_, output_); }

 private:
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

  static void expect_one_with_advice(const LateCall& late) {
    const std::vector<std::string> reports = late.reports();
    ASSERT_EQ(reports.size(), 1U) << ::testing::PrintToString(reports);
    const std::string& report = reports.front();
    EXPECT_NE(report.find("for rank 1 (host"), std::string::npos) << report;
    EXPECT_EQ(report.find("; rank "), std::string::npos) << report;  // others have said they came
    EXPECT_NE(report.find("has not called it yet"), std::string::npos) << report;
    EXPECT_NE(report.find(kNoErrorYet), std::string::npos) << report;
    EXPECT_NE(report.find(kIfThisLasts), std::string::npos) << report;
  }
};

/// A reducer whose tensors are buckets of their own, and what its steps need.
class Gradients {
 public:
  Gradients(Runtime& runtime, std::size_t num_tensors)
      : data_(num_tensors, std::vector<float>(kCount)),
        reducer_(runtime.world(), FusionPlan(specs(num_tensors), 0), "gradients") {}

  void start(std::size_t id) { reducer_.start(id, data_[id].data(), 1.0); }
  void start_all() {
    for (std::size_t id = 0; id < data_.size(); ++id) start(id);
  }
  void finish(std::size_t id) { reducer_.finish(id, data_[id].data()); }
  void finish_all() {
    for (std::size_t id = 0; id < data_.size(); ++id) finish(id);
  }
  /// Each by a thread of its own, as TensorFlow does.
  void finish_all_at_once() {
    std::vector<std::thread> threads;
    for (std::size_t id = 0; id < data_.size(); ++id)
      threads.emplace_back([this, id] { finish(id); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static constexpr std::size_t kCount = 1000;

  static std::vector<TensorSpec> specs(std::size_t num_tensors) {
    std::vector<TensorSpec> specs;
    for (std::size_t id = 0; id < num_tensors; ++id) {
      specs.push_back({text("kernel", id), DType::float32, kCount});
    }
    return specs;
  }

  std::vector<std::vector<float>> data_;
  GradientReducer reducer_;
};

TEST_P(StallReport, OfALateCallIsOneWithAdvice) {
  LateCall late("call 0, barrier() 'fit' from a.py:1, of group 'world' has waited");
  run([&](Runtime& runtime) {
    std::shared_ptr<Request> barrier;
    late.make(runtime, [&] {
      barrier = runtime.world()->start(Call{}, Group::Driver::caller, {"fit", "a.py:1"});
    });
    barrier->wait(0);
  });
  expect_one_with_advice(late);
}

TEST_P(StallReport, OfTheNextCallIsOneWithAdvice) {
  LateCall late("call 1, barrier(), of");
  run([&](Runtime& runtime) {
    runtime.world()->start(Call{})->wait(0);
    std::shared_ptr<Request> barrier;
    late.make(runtime, [&] { barrier = runtime.world()->start(Call{}); });
    barrier->wait(0);
  });
  expect_one_with_advice(late);
}

TEST_P(StallReport, OfALateBucketIsOneWithAdvice) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{200000}}) {
    LateCall late("step 0 of bucket 0");
    run([&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), FusionPlan({{"kernel", DType::float32, count}}, 0),
                              "gradients");
      std::vector<float> data(count);
      late.make(runtime, [&] { reducer.start(0, data.data(), 1.0); });
      reducer.finish(0, data.data(), 0);
    });
    expect_one_with_advice(late);
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
  ASSERT_EQ(reports.size(), 1U);
  const std::string& report = reports.front();
  EXPECT_NE(report.find("this rank itself"), std::string::npos) << report;
  EXPECT_EQ(report.find(kNoErrorYet), std::string::npos) << report;
  EXPECT_EQ(report.find(kIfThisLasts), std::string::npos) << report;
}

TEST_P(StallReport, IsNotOfTheTimeBetweenSteps) {
  const CapturedStderr output;
  run([](Runtime& runtime) {
    Gradients gradients(runtime, 4);
    for (int step = 0; step < 3; ++step) {
      pass(2);  // the first step is prepared, a callback runs
      gradients.start_all();
      gradients.finish_all();
    }
  });
  EXPECT_EQ(lines_with("has waited", output), std::vector<std::string>{});
}

TEST_P(StallReport, IsNotOfWorkBetweenStartAndWait) {
  const CapturedStderr output;
  run([](Runtime& runtime) {
    const bool is_late = runtime.environment().rank == kLate;
    Gradients gradients(runtime, 4);
    for (int step = 0; step < 2; ++step) {
      if (is_late) pass(2);
      gradients.start_all();
      const auto barrier = runtime.world()->start(Call{});
      if (!is_late) pass(2);
      gradients.finish_all();
      barrier->wait(0);
    }
  });
  EXPECT_EQ(lines_with("has waited", output), std::vector<std::string>{});
}

TEST_P(StallReport, IsOneOfManyWaitsForOneRank) {
  const CapturedStderr output;
  constexpr std::size_t kNumSteps = 3;
  run([](Runtime& runtime) {
    Gradients gradients(runtime, 8);
    for (std::size_t step = 0; step < kNumSteps; ++step) {
      if (runtime.environment().rank == kLate) pass(5);
      gradients.start_all();
      gradients.finish_all_at_once();
    }
  });
  const auto reports = lines_with("rank 0: step", output);
  ASSERT_EQ(reports.size(), kNumSteps) << ::testing::PrintToString(reports);
  for (std::size_t step = 0; step < kNumSteps; ++step) {
    EXPECT_NE(reports[step].find(text("step ", step, " of bucket")), std::string::npos);
    EXPECT_NE(reports[step].find("for rank 1 (host"), std::string::npos) << reports[step];
  }
}

TEST_P(StallReport, OfAnotherWaitComesWhenTheReportedOneGoesOn) {
  const CapturedStderr output;
  run([&](Runtime& runtime) {
    Gradients gradients(runtime, 2);
    if (runtime.environment().rank != kLate) {
      gradients.start_all();
      return gradients.finish_all_at_once();
    }
    // Ranks may report different buckets: the one of rank 0 counts.
    const auto reports = [&] { return lines_with("rank 0: step 0 of bucket", output); };
    const auto num_reports = [&] { return reports().size(); };
    wait_until([&] { return num_reports() == 1; });
    pass(3);
    ASSERT_EQ(num_reports(), 1U);
    const std::size_t reported = reports().front().find("('kernel0')") == std::string::npos ? 1 : 0;
    gradients.start(reported);
    wait_until([&] { return num_reports() == 2; });
    gradients.start(1 - reported);
    gradients.finish_all();
  });
  EXPECT_EQ(lines_with("rank 0: step 0 of bucket", output).size(), 2U);
}

TEST_P(StallReport, NamesTheCallThatHoldsUpTheAwaitedOne) {
  const CapturedStderr output;
  run([&](Runtime& runtime) {
    const std::string report = "rank 0: call 0, barrier() 'first'";
    if (runtime.environment().rank == kLate) {
      wait_until([&] { return !lines_with(report, output).empty(); });
    }
    const auto first = runtime.world()->start(Call{}, Group::Driver::engine, {"first", ""});
    const auto second = runtime.world()->start(Call{}, Group::Driver::engine, {"second", ""});
    second->wait(0);
  });
  EXPECT_EQ(lines_with("rank 0: ", output).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Networks, StallReport,
                         ::testing::Values(tests::shared_memory(2), tests::put_only(3),
                                           tests::on_hosts(2, 2)),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
