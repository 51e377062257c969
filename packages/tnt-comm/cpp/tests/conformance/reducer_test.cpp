#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "naive_tree.hpp"
#include "out_of_memory.hpp"
#include "thread_ranks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::run_threads;
using tests::sum_of;
using tests::values_of;

const std::vector<std::size_t> kCounts = {94, 17, 2, 81, 0, 1, 5000, 40009, 33};

FusionPlan plan_with(std::size_t threshold_bytes) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : kCounts) {
    tensors.push_back({.name = text("t", tensors.size()), .num_elements = count});
  }
  return {tensors, threshold_bytes};
}

class Reducer : public ::testing::TestWithParam<int> {};

TEST_P(Reducer, SumsFollowTheTreeInAnyOrderOfStarts) {
  std::vector<std::vector<float>> expected;
  for (const std::size_t count : kCounts) expected.push_back(sum_of(GetParam(), count));
  for (const std::size_t threshold : {0, 400, 32768, 1 << 30}) {
    run_threads(GetParam(), [&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), plan_with(threshold), "g");
      const int rank = runtime.environment().rank;
      std::mt19937 random(static_cast<unsigned>(rank));
      std::vector<std::size_t> order(kCounts.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      for (int step = 0; step < 5; ++step) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          reducer.start(i, values_of(rank, kCounts[i]).data(), 1.0);
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          std::vector<float> out(kCounts[i]);
          reducer.finish(i, out.data());
          EXPECT_EQ(out, expected[i]);
        }
      }
    });
  }
}

TEST_P(Reducer, ThreadsOfARankMayShareAReducer) {
  run_threads(GetParam(), [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), plan_with(400), "g");
    const std::size_t half = kCounts.size() / 2;
    const auto start = [&](std::size_t begin, std::size_t end, float value) {
      for (std::size_t i = begin; i < end; ++i) {
        reducer.start(i, std::vector<float>(kCounts[i], value).data(), 1.0);
      }
    };
    for (int step = 0; step < 30; ++step) {
      const auto value = static_cast<float>(step);
      std::thread other([&] { start(0, half, value); });
      start(half, kCounts.size(), value);
      other.join();
      for (std::size_t i = 0; i < kCounts.size(); ++i) {
        std::vector<float> out(kCounts[i]);
        reducer.finish(i, out.data());
        const std::vector<float> expected(kCounts[i], value * static_cast<float>(GetParam()));
        EXPECT_EQ(out, expected);
      }
    }
  });
}

// What a view shows must not change while it is out, whatever happens to the
// bucket meanwhile; and what cannot be lent can still be finished.
TEST_P(Reducer, LeasesStayAsTheyAreWhileLaterStepsGoOn) {
  constexpr std::size_t kLarge = 7;  // 40009 elements
  for (const std::size_t threshold : {0, 1 << 30}) {
    run_threads(GetParam(), [&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), plan_with(threshold), "g");
      const auto n = static_cast<float>(GetParam());
      BorrowedView held;
      float held_value = 0;
      int num_lent = 0;
      for (int step = 0; step < 40; ++step) {
        const auto value = static_cast<float>(step);
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
          reducer.start(i, std::vector<float>(kCounts[i], value).data(), 1.0);
        }
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
          const std::vector<float> expected(kCounts[i], value * n);
          std::vector<float> out(kCounts[i]);
          auto view = reducer.lend(i);
          if (view) {
            std::memcpy(out.data(), view.get(), out.size() * sizeof(float));
          } else {
            reducer.finish(i, out.data());
          }
          ASSERT_EQ(out, expected);
          if (i != kLarge || !view) continue;
          ++num_lent;
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.get()) % 64, 0U);
          // Ranks keep theirs for different times, so slots differ.
          if (held || step % (2 + runtime.environment().rank) != 0) continue;
          held = std::move(view);
          held_value = value * n;
        }
        if (!held) continue;
        const auto* begin = reinterpret_cast<const float*>(held.get());
        EXPECT_EQ(std::count(begin, begin + kCounts[kLarge], held_value),
                  static_cast<long>(kCounts[kLarge]));
        if (step % 5 == runtime.environment().rank % 5) held.reset();
      }
      EXPECT_GT(num_lent, 5);
    });
  }
}

TEST_P(Reducer, LeasesOutliveTheirReducerAndMayBeReturnedByOtherThreads) {
  run_threads(GetParam(), [&](Runtime& runtime) {
    auto reducer = std::make_unique<GradientReducer>(runtime.world(), plan_with(0), "g");
    reducer->start(7, std::vector<float>(kCounts[7], 1).data(), 1.0);
    auto view = reducer->lend(7);
    ASSERT_TRUE(view);
    reducer->close();
    reducer.reset();
    auto* values = reinterpret_cast<float*>(view.get());
    EXPECT_EQ(values[kCounts[7] - 1], static_cast<float>(GetParam()));
    values[0] = 17;  // the borrower's memory
    std::thread([&] { view.reset(); }).join();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Reducer, ::testing::Values(1, 2, 3, 4));

TEST(ReducerUsage, SmallTensorsAreNotLent) {
  run_threads(2, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), plan_with(0), "g");
    std::vector<float> data(94, 1);
    reducer.start(0, data.data(), 1.0);
    EXPECT_FALSE(reducer.lend(0));
    reducer.finish(0, data.data());
    EXPECT_EQ(data, std::vector<float>(94, 2));
  });
}

TEST(ReducerUsage, DoubleStartAndFinishWithoutStartNameTheTensor) {
  run_threads(1, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), plan_with(0), "g");
    std::vector<float> data(94);
    EXPECT_THROW(reducer.finish(0, data.data()), UsageError);
    reducer.start(0, data.data(), 1.0);
    try {
      reducer.start(0, data.data(), 1.0);
      FAIL() << "no error";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("'t0'"), std::string::npos);
    }
    reducer.finish(0, data.data());
    reducer.close();
    EXPECT_THROW(reducer.start(0, data.data(), 1.0), UsageError);
  });
}

TEST(LentSum, CanStillBeHadWhereThereWasNoMemoryForTheView) {
  run_threads(2, [](Runtime& runtime) {
    const std::vector<float> ones(1 << 20, 1);
    const FusionPlan plan({{"kernel", DType::float32, ones.size()}, {"bias", DType::float32, 1}},
                          std::size_t{1} << 30);
    GradientReducer reducer(runtime.world(), plan, "g");
    for (std::size_t id = 0; id < 2; ++id) reducer.start(id, ones.data(), 1);
    float bias = 0;
    reducer.finish(1, &bias);  // the sum of the other one is there as well
    EXPECT_TRUE(tests::fails_without_memory([&] { reducer.lend(0); }));
    const auto view = reducer.lend(0);
    ASSERT_NE(view, nullptr);
    float sum = 0;
    std::memcpy(&sum, view.get(), sizeof sum);
    EXPECT_EQ(sum, 2);
  });
}

}  // namespace
}  // namespace tnt::comm
