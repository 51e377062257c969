#include <gtest/gtest.h>

#include <vector>

#include "errors.hpp"
#include "thread_ranks.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::run_threads;

TEST(Failure, DifferentSizesAreAMismatchOnAllRanks) {
  run_threads(3, [](Runtime& runtime) {
    std::vector<float> data(10);
    const std::size_t count = runtime.environment().rank == 2 ? 5 : 10;
    const auto call = [&] {
      runtime.world()
          ->start_allreduce(data.data(), data.data(), count, DType::float32, ReduceOp::sum)
          ->wait(0);
    };
    EXPECT_EQ(error_of(call).kind(), ErrorKind::mismatch);
    EXPECT_EQ(error_of(call).kind(), ErrorKind::mismatch);  // the group stays broken
  });
}

TEST(Failure, ADeadlineEndsTheWaitAndTheOthersAreTold) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      EXPECT_EQ(error_of([&] { group->start_barrier()->wait(0.05); }).kind(), ErrorKind::timeout);
      runtime.world()->start_barrier()->wait(0);
    } else {
      runtime.world()->start_barrier()->wait(0);
      EXPECT_EQ(error_of([&] { group->start_barrier()->wait(0); }).kind(), ErrorKind::peer_lost);
    }
  });
}

TEST(Failure, ARankThatHasFinishedIsNotWaitedFor) {
  run_threads(2, [](Runtime& runtime) {
    runtime.world()->start_barrier()->wait(0);
    if (runtime.environment().rank == 0) {
      EXPECT_EQ(error_of([&] { runtime.world()->start_barrier()->wait(0); }).kind(),
                ErrorKind::peer_lost);
    }
  });
}

TEST(Failure, AnInterruptedWaitBreaksTheGroup) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      const auto interrupt = [] { throw std::runtime_error("interrupted"); };
      EXPECT_THROW(group->start_barrier()->wait(0, interrupt), std::runtime_error);
      EXPECT_EQ(error_of([&] { group->start_barrier()->wait(0); }).kind(), ErrorKind::comm);
    }
    runtime.world()->start_barrier()->wait(0);
  });
}

}  // namespace
}  // namespace tnt::comm
