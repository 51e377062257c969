#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "networks.hpp"
#include "tnt/comm/communicator/gatherer.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;

class Labels : public ::testing::TestWithParam<NamedJob> {};

/// What a call of rank `rank` fails with.
template <typename Call>
std::string mismatch_of(Call&& call) {
  const Error error = tests::error_of(call);
  EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
  return error.what();
}

void expect_in(const std::string& part, const std::string& whole) {
  EXPECT_NE(whole.find(part), std::string::npos) << part << "\nis not in\n" << whole;
}

TEST_P(Labels, DifferentOnesAreAMismatchOnAllRanks) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const std::array<std::uint8_t, 12> data{};
    const CallLabel label{rank == 0 ? "predict" : "fit", rank == 0 ? "a.py:1" : "b.py:2"};
    const std::string what = mismatch_of([&] {
      runtime.world()
          ->start({.kind = CollectiveKind::allgather,
                   .in = data.data(),
                   .count = data.size(),
                   .dtype = DType::uint8},
                  Group::Driver::caller, label)
          ->wait(0);
    });
    expect_in("rank 0 called allgather(uint8, 12 elements) 'predict' from a.py:1", what);
    expect_in(" called allgather(uint8, 12 elements) 'fit' from b.py:2.", what);
  });
}

TEST_P(Labels, OfAllreducesAreComparedOnTheShortPathToo) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{100000}}) {
    run_job(GetParam().job, [count](Runtime& runtime) {
      Group& group = *runtime.world();
      const int rank = runtime.environment().rank;
      std::vector<float> data(count, 1.0F);
      const auto allreduce = [&](const CallLabel& label) {
        const auto request = group.run({.kind = CollectiveKind::allreduce,
                                        .in = data.data(),
                                        .out = data.data(),
                                        .count = count,
                                        .dtype = DType::float32,
                                        .op = ReduceOp::max},
                                       label);
        if (request) request->wait(0);
      };
      for (int call = 0; call < 20; ++call) allreduce({"step", text("rank ", rank)});
      EXPECT_EQ(data, std::vector<float>(count, 1.0F));
      const CallLabel label{rank == 0 ? "predict" : "fit", rank == 0 ? "a.py:1" : "b.py:2"};
      const std::string what = mismatch_of([&] { allreduce(label); });
      const std::string call = text("allreduce(float32, ", count, " elements, max)");
      expect_in(text("rank 0 called ", call, " 'predict' from a.py:1; rank"), what);
      expect_in(text(" called ", call, " 'fit' from b.py:2."), what);
    });
  }
}

// Who is the first waits, hands its call over to the engine, and then looks for the
// caller; the last one finds the others' calls there.
TEST_P(Labels, CallersAreFoundOnAllRanksWhoeverComesLate) {
  for (int late = 0; late < 2; ++late) {
    run_job(GetParam().job, [late](Runtime& runtime) {
      Group& group = *runtime.world();
      const int rank = runtime.environment().rank;
      group.start(Call{})->wait(0);
      if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      float value = 1;
      const std::string what = mismatch_of([&] {
        if (rank == 0) {
          const CallLabel label{"", "", [] { return std::string("a.py:1"); }};
          const auto request = group.run({.kind = CollectiveKind::allreduce,
                                          .in = &value,
                                          .out = &value,
                                          .count = 1,
                                          .dtype = DType::float32,
                                          .op = ReduceOp::sum},
                                         label);
          if (request) request->wait(0);
        } else {
          const CallLabel label{"", "", [] { return std::string("b.py:2"); }};
          group.start(Call{}, Group::Driver::caller, label)->wait(0);
        }
      });
      expect_in("rank 0 called allreduce(float32, 1 elements, sum) from a.py:1; rank", what);
      expect_in(" called barrier() from b.py:2.", what);
    });
  }
}

TEST_P(Labels, NoneDiffersFromOne) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const bool is_first = runtime.environment().rank == 0;
    const CallLabel label{is_first ? "end of step" : "", ""};
    const std::string what =
        mismatch_of([&] { runtime.world()->start(Call{}, Group::Driver::caller, label)->wait(0); });
    expect_in("rank 0 called barrier() 'end of step'; rank", what);
  });
}

TEST_P(Labels, EqualOnesOfDifferentCallersMatch) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const std::string caller = text("script.py:", runtime.environment().rank);
    for (int call = 0; call < 20; ++call) {
      const std::string label = text("call ", call);
      float value = static_cast<float>(runtime.environment().rank);
      runtime.world()->start(Call{}, Group::Driver::engine, {label, caller})->wait(0);
      runtime.world()
          ->start({.kind = CollectiveKind::broadcast,
                   .in = &value,
                   .out = &value,
                   .count = 1,
                   .dtype = DType::float32,
                   .root = 1},
                  Group::Driver::caller, {label, caller})
          ->wait(0);
      EXPECT_EQ(value, 1.0F);
    }
  });
}

TEST_P(Labels, WhatIsCreatedIsNamed) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const std::string what = mismatch_of([&] {
      if (runtime.environment().rank == 0) {
        runtime.world()->start(Call{})->wait(0);
      } else {
        const Gatherer gatherer(runtime.world(), "rows");
      }
    });
    expect_in("rank 0 called barrier(); rank", what);
    expect_in(" called creation of Gatherer 'rows'.", what);
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, Labels,
                         ::testing::Values(tests::shared_memory(2), tests::shared_memory(3),
                                           tests::put_only(3), tests::on_hosts(2, 2),
                                           tests::late(tests::put_only(4))),
                         tests::name_of_job);

TEST(Label, ACallerThatNobodyNeedsIsNotLookedFor) {
  static std::atomic<int> num_looks{0};
  tests::run_threads(1, [](Runtime& runtime) {
    const CallLabel label{"", "", [] {
                            ++num_looks;
                            return std::string("a.py:1");
                          }};
    runtime.world()->start(Call{}, Group::Driver::caller, label)->wait(0);
  });
  EXPECT_EQ(num_looks, 0);
}

}  // namespace
}  // namespace tnt::comm
