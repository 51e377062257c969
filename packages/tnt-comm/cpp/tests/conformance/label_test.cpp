#include <gtest/gtest.h>

#include <array>
#include <string>

#include "networks.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/group/gatherer.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;

class Labels : public ::testing::TestWithParam<NamedJob> {};

/// What a call of rank `rank` fails with.
template <typename Call>
std::string mismatch_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
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
          ->start_allgather(data.data(), data.size(), DType::uint8, 0, Group::Driver::caller, label)
          ->wait(0);
    });
    expect_in("rank 0 called allgather(uint8, 12 elements, row shape id 0) 'predict' from a.py:1",
              what);
    expect_in(" called allgather(uint8, 12 elements, row shape id 0) 'fit' from b.py:2.", what);
  });
}

TEST_P(Labels, NoneDiffersFromOne) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const bool is_first = runtime.environment().rank == 0;
    const CallLabel label{is_first ? "end of step" : "", ""};
    const std::string what =
        mismatch_of([&] { runtime.world()->start_barrier(Group::Driver::caller, label)->wait(0); });
    expect_in("rank 0 called barrier() 'end of step'; rank", what);
  });
}

TEST_P(Labels, EqualOnesOfDifferentCallersMatch) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const std::string caller = text("script.py:", runtime.environment().rank);
    for (int call = 0; call < 20; ++call) {
      const std::string label = text("call ", call);
      float value = static_cast<float>(runtime.environment().rank);
      runtime.world()->start_barrier(Group::Driver::engine, {label, caller})->wait(0);
      runtime.world()
          ->start_broadcast(&value, &value, 1, DType::float32, 1, Group::Driver::caller,
                            {label, caller})
          ->wait(0);
      EXPECT_EQ(value, 1.0F);
    }
  });
}

TEST_P(Labels, WhatIsCreatedIsNamed) {
  run_job(GetParam().job, [](Runtime& runtime) {
    const std::string what = mismatch_of([&] {
      if (runtime.environment().rank == 0) {
        runtime.world()->start_barrier()->wait(0);
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

}  // namespace
}  // namespace tnt::comm
