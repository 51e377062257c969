#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <vector>

#include "errors.hpp"
#include "thread_ranks.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/communicator/wait.hpp"

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
          ->start({.kind = CollectiveKind::allreduce,
                   .in = data.data(),
                   .out = data.data(),
                   .count = count,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum})
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
      EXPECT_EQ(error_of([&] { group->start(Call{})->wait(0.05); }).kind(), ErrorKind::timeout);
      runtime.world()->start(Call{})->wait(0);
    } else {
      runtime.world()->start(Call{})->wait(0);
      EXPECT_EQ(error_of([&] { group->start(Call{})->wait(0); }).kind(), ErrorKind::peer_lost);
    }
  });
}

/// Runs out of memory in its first step.
class OutOfMemory : public CollectiveOperation {
 public:
  using CollectiveOperation::CollectiveOperation;

 protected:
  Progress do_advance() override { throw std::bad_alloc(); }
  std::string describe() const override { return "operation"; }
  std::vector<int> missing() const override { return {}; }
};

/// Can be done only when it has been seen that a rank it waits for has ended.
class DoneAtTheLastMoment : public CollectiveOperation {
 public:
  using CollectiveOperation::CollectiveOperation;
  int num_done = 0;

 protected:
  Progress do_advance() override {
    if (!is_looked_at_) return Progress::pending;
    ++num_done;
    return Progress::done;
  }
  std::string describe() const override { return "operation"; }
  std::vector<int> missing() const override {
    is_looked_at_ = true;
    return {1};
  }

 private:
  mutable bool is_looked_at_ = false;
};

TEST(Failure, WhatAPeerDidBeforeItEndedCompletesAnOperationOnce) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 1) return;
    const Deadline deadline(30);
    while (runtime.transport().status_of(1).state != PeerState::finished && !deadline.is_over()) {
      std::this_thread::yield();
    }
    const auto operation = std::make_shared<DoneAtTheLastMoment>(group->abort_state());
    group->engine().submit(std::make_shared<Stream>(), operation);
    wait_for(*group, *operation, 1, 30, {});
    EXPECT_EQ(operation->num_done, 1);
  });
}

TEST(Failure, AnExceptionOfAnyKindBreaksTheGroupWithItsText) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      const auto operation = std::make_shared<OutOfMemory>(group->abort_state());
      group->engine().submit(std::make_shared<Stream>(), operation);
      const Error error = error_of([&] { wait_for(*group, *operation, 1, 30, {}); });
      EXPECT_EQ(std::string(error.what()),
                "rank 0: operation of group 'pair' cannot be completed: std::bad_alloc.");
      EXPECT_EQ(error.kind(), ErrorKind::comm);
    } else {
      const Error error = error_of([&] { group->start(Call{})->wait(0); });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      EXPECT_NE(std::string(error.what()).find("std::bad_alloc"), std::string::npos);
    }
    runtime.world()->start(Call{})->wait(0);
  });
}

TEST(Failure, ARankThatHasFinishedIsNotWaitedFor) {
  run_threads(2, [](Runtime& runtime) {
    runtime.world()->start(Call{})->wait(0);
    if (runtime.environment().rank == 0) {
      EXPECT_EQ(error_of([&] { runtime.world()->start(Call{})->wait(0); }).kind(),
                ErrorKind::peer_lost);
    }
  });
}

TEST(Failure, OnlyFunctionsWhoseOwnersLiveAreKeptAndCalledBeforeLeaving) {
  run_threads(1, [](Runtime& runtime) {
    auto owner = std::make_shared<int>(), used = std::make_shared<int>();
    const std::weak_ptr<int> of_function = used;
    runtime.before_leaving(owner, [used = std::move(used)] { FAIL(); });
    owner.reset();
    const auto living = std::make_shared<int>();
    runtime.before_leaving(living, [living = living.get()] { ++*living; });
    EXPECT_TRUE(of_function.expired());
    runtime.finish();
    EXPECT_EQ(*living, 1);
  });
}

TEST(Failure, AnInterruptedWaitBreaksTheGroup) {
  run_threads(2, [](Runtime& runtime) {
    const auto group = Group::create(runtime, {0, 1}, "pair");
    if (runtime.environment().rank == 0) {
      const auto interrupt = [] { throw std::runtime_error("interrupted"); };
      EXPECT_THROW(group->start(Call{})->wait(0, interrupt), std::runtime_error);
      EXPECT_EQ(error_of([&] { group->start(Call{})->wait(0); }).kind(), ErrorKind::comm);
    }
    runtime.world()->start(Call{})->wait(0);
  });
}

}  // namespace
}  // namespace tnt::comm
