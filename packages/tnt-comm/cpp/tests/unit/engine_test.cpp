#include "tnt/comm/progress/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "out_of_memory.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/progress/backoff.hpp"

namespace tnt::comm {
namespace {

using tests::fails_without_memory;

/// Is done when the test says so; counts what happens to it.
class Scripted : public Operation {
 public:
  Progress advance() override {
    if (throws) throw Error(ErrorKind::comm, "scripted");
    return is_ready ? Progress::done : Progress::pending;
  }
  Progress supervise() override {
    ++num_supervisions;
    return Progress::pending;
  }
  void complete() override { completion.complete(); }
  void fail(const Error& error) override { completion.fail(error); }

  std::atomic<bool> is_ready{false};
  std::atomic<bool> throws{false};
  std::atomic<int> num_supervisions{0};
  Completion completion;
};

class EngineTest : public ::testing::Test {
 protected:
  std::shared_ptr<Scripted> submit(const std::shared_ptr<Stream>& stream) {
    auto operation = std::make_shared<Scripted>();
    engine.submit(stream, operation);
    return operation;
  }
  void release(Scripted& operation) {
    operation.is_ready = true;
    doorbell.ring();
  }
  bool is_done_within(const Scripted& operation, double timeout_s) {
    return engine.wait(operation.completion, 1, Deadline(timeout_s).end());
  }

  Doorbell doorbell;
  Engine engine{doorbell,
                EngineSettings{.poll = {}, .supervision_interval = std::chrono::milliseconds(5)}};
};

TEST_F(EngineTest, AnOperationThatWaitsHoldsUpNoOtherStream) {
  const auto blocked = submit(std::make_shared<Stream>());
  const auto other = submit(std::make_shared<Stream>());
  release(*other);
  EXPECT_TRUE(is_done_within(*other, 30));
  EXPECT_FALSE(blocked->completion.has_reached(1));
  release(*blocked);
  EXPECT_TRUE(is_done_within(*blocked, 30));
}

TEST_F(EngineTest, OperationsOfOneStreamRunInOrder) {
  const auto stream = std::make_shared<Stream>();
  const auto first = submit(stream);
  const auto second = submit(stream);
  release(*second);
  EXPECT_FALSE(is_done_within(*second, 0.02));
  release(*first);
  EXPECT_TRUE(is_done_within(*second, 30));
}

TEST_F(EngineTest, AnErrorEndsItsOperationOnly) {
  const auto stream = std::make_shared<Stream>();
  auto failing = std::make_shared<Scripted>();
  failing->throws = true;
  engine.submit(stream, failing);
  const auto next = submit(stream);
  release(*next);
  EXPECT_TRUE(is_done_within(*next, 30));
  EXPECT_THROW(failing->completion.rethrow_unless_completed(1), Error);
}

TEST(EngineWithoutMemory, WhatWasSubmittedIsTakenUpAllTheSame) {
  Doorbell doorbell;
  // Its thread sleeps until it is rung for, so that callers are alone.
  Engine engine(doorbell, {.poll = {}, .longest_sleep = std::chrono::hours(1)});
  while (doorbell.num_sleepers.load() == 0) std::this_thread::yield();
  auto operation = std::make_shared<Scripted>();
  operation->is_ready = true;
  engine.submit(std::make_shared<Stream>(), operation, Engine::Driver::caller);
  const auto end = Deadline(30).end();
  bool is_complete = false;
  EXPECT_FALSE(
      fails_without_memory([&] { is_complete = engine.wait(operation->completion, 1, end); }));
  EXPECT_TRUE(is_complete);
}

TEST_F(EngineTest, PendingOperationsAreSupervised) {
  const auto blocked = submit(std::make_shared<Stream>());
  const Deadline deadline(30);
  while (blocked->num_supervisions < 3 && !deadline.is_over()) std::this_thread::yield();
  EXPECT_GE(blocked->num_supervisions, 3);
  release(*blocked);
  EXPECT_TRUE(is_done_within(*blocked, 30));
}

TEST_F(EngineTest, StoppingFailsWhatIsInFlightAndRefusesMore) {
  const auto blocked = submit(std::make_shared<Stream>());
  engine.stop(UsageError("stopped"));
  EXPECT_THROW(blocked->completion.rethrow_unless_completed(1), UsageError);
  EXPECT_THROW(submit(std::make_shared<Stream>()), UsageError);
}

TEST_F(EngineTest, ASubmissionThatFindsNoMemoryLeavesNothingBehind) {
  const auto stream = std::make_shared<Stream>();
  const auto operation = std::make_shared<Scripted>();
  EXPECT_TRUE(fails_without_memory([&] { engine.submit(stream, operation); }));
  EXPECT_TRUE(engine.try_hold(*stream));
}

TEST_F(EngineTest, AHoldEndsWithItsOwner) {
  const auto stream = std::make_shared<Stream>();
  std::shared_ptr<Scripted> next;
  {
    Engine::Hold hold = engine.try_hold(*stream);
    EXPECT_TRUE(hold);
    EXPECT_FALSE(engine.try_hold(*stream));
    const Engine::Hold moved = std::move(hold);
    EXPECT_TRUE(moved);
    next = submit(stream);
    release(*next);
    EXPECT_FALSE(is_done_within(*next, 0.02));
  }
  EXPECT_TRUE(is_done_within(*next, 30));
}

TEST_F(EngineTest, AHoldThatIsHandedOverGoesFirst) {
  const auto stream = std::make_shared<Stream>();
  std::optional<Engine::Hold> hold(engine.try_hold(*stream));
  const auto next = submit(stream);
  release(*next);
  const auto first = std::make_shared<Scripted>();
  engine.hand_over(std::move(*hold), first);
  hold.reset();
  EXPECT_FALSE(is_done_within(*next, 0.02));
  release(*first);
  EXPECT_TRUE(is_done_within(*next, 30));
}

TEST_F(EngineTest, AHandOverThatFindsNoMemoryEndsTheHold) {
  const auto stream = std::make_shared<Stream>();
  const auto operation = std::make_shared<Scripted>();
  const auto hand_over = [&] { engine.hand_over(engine.try_hold(*stream), operation); };
  EXPECT_TRUE(fails_without_memory(hand_over));
  EXPECT_TRUE(engine.try_hold(*stream));
}

TEST_F(EngineTest, ManyThreadsMaySubmitAndWait) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        auto operation = std::make_shared<Scripted>();
        operation->is_ready = true;
        engine.submit(std::make_shared<Stream>(), operation,
                      k % 2 == 0 ? Engine::Driver::engine : Engine::Driver::caller);
        EXPECT_TRUE(is_done_within(*operation, 30));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

/// Callers look for progress as long as the test runs; the engine's thread sleeps until it is rung.
class SleepyEngineTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kLong{60};

  /// Starts a thread that waits for an operation, and returns when it polls.
  std::thread wait_for(const std::shared_ptr<Scripted>& operation) {
    engine.submit(std::make_shared<Stream>(), operation, Engine::Driver::caller);
    std::thread caller([this, operation] {
      engine.wait(operation->completion, 1, Deadline(kLong.count()).end());
    });
    while (doorbell.num_pollers.load() == 0) std::this_thread::yield();
    return caller;
  }
  static bool is_done_soon(const Scripted& operation) {
    return operation.completion.wait_until(1, Deadline(5).end());
  }

  Doorbell doorbell;
  Engine engine{doorbell, EngineSettings{.poll = {.spin_time = {}, .yield_time = kLong},
                                         .supervision_interval = kLong,
                                         .longest_sleep = kLong}};
};

TEST_F(SleepyEngineTest, WhatWasSubmittedWhileACallerPolledGoesOnWhenTheCallerHasItsResult) {
  while (doorbell.num_sleepers.load() == 0) std::this_thread::yield();
  const auto awaited = std::make_shared<Scripted>();
  std::thread caller = wait_for(awaited);
  const auto other = std::make_shared<Scripted>();
  engine.submit(std::make_shared<Stream>(), other);
  awaited->is_ready = true;
  caller.join();
  other->is_ready = true;
  doorbell.ring_if_heard();
  EXPECT_TRUE(is_done_soon(*other));
}

/// A peer acts for another operation just when this one is done.
class LastAct : public Scripted {
 public:
  LastAct(Doorbell& doorbell, Scripted& other) : doorbell_(doorbell), other_(other) {}
  Progress advance() override {
    if (!is_ready) return Progress::pending;
    other_.is_ready = true;
    doorbell_.ring_if_heard();
    return Progress::done;
  }

 private:
  Doorbell& doorbell_;
  Scripted& other_;
};

TEST_F(SleepyEngineTest, WhatPeersDidWhileACallerPolledIsSeenWhenTheCallerHasItsResult) {
  const auto other = std::make_shared<Scripted>();
  engine.submit(std::make_shared<Stream>(), other);
  while (doorbell.num_listeners.load() == 0) std::this_thread::yield();
  const auto awaited = std::make_shared<LastAct>(doorbell, *other);
  std::thread caller = wait_for(awaited);
  awaited->is_ready = true;
  caller.join();
  EXPECT_TRUE(is_done_soon(*other));
}

TEST(Backoff, IsOverUntilItIsRenewed) {
  Backoff backoff(
      {.spin_time = std::chrono::microseconds(50), .yield_time = std::chrono::microseconds(50)});
  const auto wait_until_over = [&] {
    const Deadline deadline(30);
    while (backoff.wait_a_moment() && !deadline.is_over()) {
    }
    return !deadline.is_over();
  };
  EXPECT_TRUE(wait_until_over());
  for (int look = 0; look < 100; ++look) EXPECT_FALSE(backoff.wait_a_moment());
  backoff.renew();
  EXPECT_TRUE(backoff.wait_a_moment());
  EXPECT_TRUE(wait_until_over());
}

}  // namespace
}  // namespace tnt::comm
