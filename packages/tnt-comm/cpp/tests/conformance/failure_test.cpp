#include <gtest/gtest.h>

#include <vector>

#include "thread_ranks.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using tests::run_threads;

/// Kind of the error that a call throws.
template <typename Call>
ErrorKind kind_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::usage;
}

TEST(Failure, DifferentSizesAreAMismatchOnAllRanks) {
  run_threads(3, [](Runtime& runtime) {
    std::vector<float> data(10);
    const std::size_t count = runtime.environment().rank == 2 ? 5 : 10;
    const auto call = [&] {
      runtime.world()
          ->start_allreduce(data.data(), data.data(), count, DType::float32, ReduceOp::sum)
          ->wait(0);
    };
    EXPECT_EQ(kind_of(call), ErrorKind::mismatch);
    EXPECT_EQ(kind_of(call), ErrorKind::mismatch);  // the group stays broken
  });
}

TEST(Failure, ADeadlineEndsTheWaitAndTheOthersAreTold) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      EXPECT_EQ(kind_of([&] { group->start_barrier()->wait(0.05); }), ErrorKind::timeout);
      runtime.world()->start_barrier()->wait(0);
    } else {
      runtime.world()->start_barrier()->wait(0);
      EXPECT_EQ(kind_of([&] { group->start_barrier()->wait(0); }), ErrorKind::peer_lost);
    }
  });
}

TEST(Failure, ARankThatHasFinishedIsNotWaitedFor) {
  run_threads(2, [](Runtime& runtime) {
    runtime.world()->start_barrier()->wait(0);
    if (runtime.environment().rank == 0) {
      EXPECT_EQ(kind_of([&] { runtime.world()->start_barrier()->wait(0); }), ErrorKind::peer_lost);
    }
  });
}

TEST(Failure, AnInterruptedWaitBreaksTheGroup) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      const auto interrupt = [] { throw std::runtime_error("interrupted"); };
      EXPECT_THROW(group->start_barrier()->wait(0, interrupt), std::runtime_error);
      EXPECT_EQ(kind_of([&] { group->start_barrier()->wait(0); }), ErrorKind::comm);
    }
    runtime.world()->start_barrier()->wait(0);
  });
}

}  // namespace
}  // namespace tnt::comm
