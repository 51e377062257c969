#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "naive_tree.hpp"
#include "thread_ranks.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::run_threads;
using tests::sum_of;
using tests::values_of;

void allreduce(Group& group, const float* in, float* out, std::size_t count) {
  const auto request = group.run({.kind = CollectiveKind::allreduce,
                                  .in = in,
                                  .out = out,
                                  .count = count,
                                  .dtype = DType::float32,
                                  .op = ReduceOp::sum});
  if (request) request->wait(0);
}

class QuickAllreduces : public ::testing::TestWithParam<int> {};

TEST_P(QuickAllreduces, HaveTheBitsOfTheTreeInPlaceAndNot) {
  const auto n = static_cast<std::size_t>(GetParam());
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n + 1, std::size_t{1000}}) {
    const auto expected = sum_of(GetParam(), count);
    run_threads(GetParam(), [&](Runtime& runtime) {
      for (int round = 0; round < 100; ++round) {
        auto data = values_of(runtime.environment().rank, count);
        std::vector<float> out(count);
        allreduce(*runtime.world(), data.data(), out.data(), count);
        EXPECT_EQ(out, expected);
        allreduce(*runtime.world(), data.data(), data.data(), count);
        EXPECT_EQ(data, expected);
      }
    });
  }
}

// Late ranks, so that the others hand over to their engines; and other calls
// before, between and after, which keep their order.
TEST_P(QuickAllreduces, AreHandedOverWhenPeersAreLateAndKeepTheOrderOfCalls) {
  run_threads(GetParam(), [&](Runtime& runtime) {
    Group& group = *runtime.world();
    const int rank = runtime.environment().rank;
    for (int round = 0; round < 30; ++round) {
      std::vector<float> large(100000, 1);
      std::vector<float> small(10, 2);
      if (round % GetParam() == rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto before = group.start({.kind = CollectiveKind::allreduce,
                                       .in = large.data(),
                                       .out = large.data(),
                                       .count = large.size(),
                                       .dtype = DType::float32,
                                       .op = ReduceOp::sum});
      allreduce(group, small.data(), small.data(), small.size());
      const auto after = group.start(Call{});
      allreduce(group, small.data(), small.data(), small.size());
      after->wait(0);
      before->wait(0);
      const auto n = static_cast<float>(GetParam());
      EXPECT_EQ(small, std::vector<float>(10, 2 * n * n));
      EXPECT_EQ(large, std::vector<float>(100000, n));
    }
  });
}

TEST_P(QuickAllreduces, OfOtherThreadsWaitForTheirTurn) {
  run_threads(GetParam(), [&](Runtime& runtime) {
    const auto pair = Group::create(runtime, runtime.world()->ranks(), "second");
    const auto work = [&](Group& group) {
      for (int round = 1; round <= 300; ++round) {
        float value = static_cast<float>(round);
        allreduce(group, &value, &value, 1);
        ASSERT_EQ(value, static_cast<float>(round * GetParam()));
      }
    };
    std::thread other([&] { work(*pair); });
    work(*runtime.world());
    other.join();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, QuickAllreduces, ::testing::Values(1, 2, 3, 4, 8));

TEST(QuickAllreduce, ThreadsOfARankMayShareAGroup) {
  run_threads(2, [](Runtime& runtime) {
    // All calls are alike, so their order between threads does not matter.
    const auto work = [&] {
      for (int round = 0; round < 300; ++round) {
        float value = 1;
        allreduce(*runtime.world(), &value, &value, 1);
        ASSERT_EQ(value, 2.0F);
      }
    };
    std::thread other(work);
    work();
    other.join();
  });
}

TEST(QuickAllreduce, AMismatchIsSeenByAllRanks) {
  run_threads(3, [](Runtime& runtime) {
    std::vector<float> data(10);
    const std::size_t count = runtime.environment().rank == 1 ? 5 : 10;
    const auto call = [&] { allreduce(*runtime.world(), data.data(), data.data(), count); };
    EXPECT_EQ(error_of(call).kind(), ErrorKind::mismatch);
    EXPECT_EQ(error_of(call).kind(), ErrorKind::mismatch);
  });
}

TEST(QuickAllreduce, AnExceptionBreaksTheGroupWithItsTextAndHoldsUpNobody) {
  run_threads(2, [](Runtime& runtime) {
    const auto pair = Group::create(runtime, {0, 1}, "pair");
    float value = 1;
    if (runtime.environment().rank == 0) {
      // Asked for when the other rank does not come.
      const CallLabel label{.label = {}, .caller = {}, .find_caller = []() -> std::string {
                              throw std::runtime_error("no caller");
                            }};
      const Error error = error_of([&] {
        pair->run({.kind = CollectiveKind::allreduce,
                   .in = &value,
                   .out = &value,
                   .count = 1,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum},
                  label);
      });
      EXPECT_EQ(std::string(error.what()),
                "rank 0: allreduce(float32, 1 elements, sum) of group 'pair' cannot be completed:"
                " no caller.");
      EXPECT_NE(
          std::string(error_of([&] { pair->start(Call{})->wait(5); }).what()).find("no caller"),
          std::string::npos);
    }
    runtime.world()->start(Call{})->wait(0);
    if (runtime.environment().rank == 1) {
      const Error error = error_of([&] { pair->start(Call{})->wait(5); });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      EXPECT_NE(std::string(error.what()).find("no caller"), std::string::npos);
    }
  });
}

TEST(QuickAllreduce, MoreElementsThanAnyMemoryHoldsAreRefused) {
  run_threads(2, [](Runtime& runtime) {
    Group& group = *runtime.world();
    float value = 1;
    // As bytes, the number would be a small one again.
    constexpr std::size_t kCount = std::numeric_limits<std::size_t>::max() / sizeof(float) + 2;
    const auto refuses = [](const auto& call) { return error_of(call).kind() == ErrorKind::usage; };
    EXPECT_TRUE(refuses([&] { allreduce(group, &value, &value, kCount); }));
    EXPECT_TRUE(refuses([&] {
      group.start({.kind = CollectiveKind::allreduce,
                   .in = &value,
                   .out = &value,
                   .count = kCount,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum});
    }));
    EXPECT_TRUE(refuses([&] {
      group.start({.kind = CollectiveKind::broadcast,
                   .in = &value,
                   .out = &value,
                   .count = kCount,
                   .dtype = DType::float32,
                   .root = 0});
    }));
    EXPECT_TRUE(refuses([&] {
      group.start({.kind = CollectiveKind::allgather,
                   .in = &value,
                   .count = kCount,
                   .dtype = DType::float32});
    }));
    EXPECT_TRUE(refuses([&] {
      group.start({.kind = CollectiveKind::reduce_scatter,
                   .in = &value,
                   .out = &value,
                   .count = 2,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum,
                   .row_elements = kCount / 2});
    }));
    allreduce(group, &value, &value, 1);
    EXPECT_EQ(value, 2.0F);
  });
}

TEST(QuickAllreduce, ADeadlineAndARankThatHasFinishedEndTheWait) {
  run_threads(2, [](Runtime& runtime) {
    const auto pair = Group::create(runtime, {0, 1}, "pair");
    float value = 1;
    if (runtime.environment().rank == 0) {
      const auto wait = [&] {
        pair->run({.kind = CollectiveKind::allreduce,
                   .in = &value,
                   .out = &value,
                   .count = 1,
                   .dtype = DType::float32,
                   .op = ReduceOp::sum})
            ->wait(0.05);
      };
      EXPECT_EQ(error_of(wait).kind(), ErrorKind::timeout);
      allreduce(*runtime.world(), &value, &value, 1);
      EXPECT_EQ(error_of([&] { allreduce(*runtime.world(), &value, &value, 1); }).kind(),
                ErrorKind::peer_lost);
    } else {
      allreduce(*runtime.world(), &value, &value, 1);
      EXPECT_EQ(error_of([&] { allreduce(*pair, &value, &value, 1); }).kind(),
                ErrorKind::peer_lost);
    }
  });
}

TEST(QuickAllreduce, NothingRunsAfterTheEnd) {
  run_threads(2, [](Runtime& runtime) {
    float value = 1;
    allreduce(*runtime.world(), &value, &value, 1);
    runtime.finish();
    EXPECT_EQ(error_of([&] { allreduce(*runtime.world(), &value, &value, 1); }).kind(),
              ErrorKind::usage);
  });
}

}  // namespace
}  // namespace tnt::comm
