// Tensors that are summed where they lie: the same bits as packed ones, however
// each rank starts them, and nothing is touched longer than it may be.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "naive_tree.hpp"
#include "networks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;
using tests::sum_of;
using tests::values_of;

// Large ones between small ones; the largest takes several slots.
const std::vector<std::size_t> kInPlaceCounts = {94, 20000, 17, 300007, 5000, 16384, 0, 150001};
constexpr std::size_t kLarge = 3;
constexpr std::size_t kOtherLarge = 7;

FusionPlan in_place_plan(std::size_t threshold_bytes) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : kInPlaceCounts) {
    tensors.push_back({.name = text("t", tensors.size()), .num_elements = count});
  }
  return {tensors, threshold_bytes};
}

class InPlace : public ::testing::TestWithParam<NamedJob> {
 protected:
  static int size() { return GetParam().job.size; }
};

// Scaling by a power of two is exact, so the sums of halves are half the sums.
TEST_P(InPlace, SumsFollowTheTreeHoweverTensorsAreStarted) {
  std::vector<std::vector<float>> expected;
  for (const std::size_t count : kInPlaceCounts) expected.push_back(sum_of(size(), count));
  for (const std::size_t threshold : {0, 32768, 1 << 30}) {
    run_job(GetParam().job, [&](Runtime& runtime) {
      GradientReducer reducer(runtime.world(), in_place_plan(threshold), "g");
      const int rank = runtime.environment().rank;
      std::mt19937 random(static_cast<unsigned>(rank));
      std::vector<std::size_t> order(kInPlaceCounts.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::vector<std::vector<float>> data(kInPlaceCounts.size());
      std::vector<std::vector<float>> sums(kInPlaceCounts.size());
      for (int step = 0; step < 6; ++step) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          data[i] = values_of(rank, kInPlaceCounts[i]);
          sums[i].assign(kInPlaceCounts[i], -1);
          double scale = 1;
          if (random() % 2 == 0) {
            scale = 0.5;
            for (float& value : data[i]) value *= 2;
          }
          const auto way = random() % 3;
          if (way == 0) {
            reducer.start(i, data[i].data(), scale);
          } else if (way == 1) {
            reducer.start_into(i, data[i].data(), sums[i].data(), scale, nullptr);
          } else {
            sums[i] = data[i];
            reducer.start_into(i, sums[i].data(), sums[i].data(), scale, nullptr);
          }
          if (way == 0) data[i].assign(kInPlaceCounts[i], -2);  // the caller's again
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          std::vector<float> out(kInPlaceCounts[i]);
          reducer.finish(i, out.data());
          EXPECT_TRUE(out == expected[i]) << "tensor " << i << ", step " << step;
        }
      }
    });
  }
}

TEST_P(InPlace, AScaleOfZeroContributesZerosWhateverTheTensorHolds) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(0), "g");
    const bool is_first = runtime.environment().rank == 0;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> values(kInPlaceCounts[kLarge], is_first ? 3 : kNan);
    reducer.start_into(kLarge, values.data(), values.data(), is_first ? 1 : 0, nullptr);
    reducer.finish(kLarge, nullptr);
    EXPECT_TRUE(values == std::vector<float>(kInPlaceCounts[kLarge], 3));
  });
}

TEST_P(InPlace, ALateTensorHoldsUpNoOther) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(0), "g");
    const bool is_last = runtime.environment().rank == size() - 1;
    std::vector<float> one(kInPlaceCounts[kLarge], 1);
    std::vector<float> other(kInPlaceCounts[kOtherLarge], 2);
    const auto start_one = [&] { reducer.start_into(kLarge, one.data(), one.data(), 1, nullptr); };
    for (int step = 0; step < 3; ++step) {
      one.assign(one.size(), 1);
      other.assign(other.size(), 2);
      if (!is_last) start_one();
      reducer.start_into(kOtherLarge, other.data(), other.data(), 1, nullptr);
      reducer.finish(kOtherLarge, nullptr);
      if (is_last) start_one();
      reducer.finish(kLarge, nullptr);
      EXPECT_EQ(one.back(), static_cast<float>(size()));
      EXPECT_EQ(other.back(), static_cast<float>(2 * size()));
    }
  });
}

// As gradients are: other threads start and finish other tensors.
TEST_P(InPlace, ThreadsMayStartAndFinishDifferentTensors) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(32768), "g");
    std::vector<std::vector<float>> data;
    for (const std::size_t count : kInPlaceCounts) data.emplace_back(count);
    const auto for_some = [&](std::size_t first, const auto& function) {
      for (std::size_t i = first; i < kInPlaceCounts.size(); i += 2) function(i);
    };
    for (int step = 0; step < 10; ++step) {
      const auto start = [&](std::size_t i) {
        data[i].assign(kInPlaceCounts[i], static_cast<float>(step));
        reducer.start_into(i, data[i].data(), data[i].data(), 1, nullptr);
      };
      const auto finish = [&](std::size_t i) { reducer.finish(i, nullptr); };
      std::thread starter([&] { for_some(1, start); });
      for_some(0, start);
      starter.join();
      std::thread finisher([&] { for_some(1, finish); });
      for_some(0, finish);
      finisher.join();
      const auto sum = static_cast<float>(step * size());
      for (std::size_t i = 0; i < kInPlaceCounts.size(); ++i) {
        EXPECT_TRUE(data[i] == std::vector<float>(kInPlaceCounts[i], sum)) << "tensor " << i;
      }
    }
  });
}

TEST_P(InPlace, OwnersLiveUntilTheFinish) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(0), "g");
    for (std::size_t i = 0; i < kInPlaceCounts.size(); ++i) {
      auto owner = std::make_shared<std::vector<float>>(kInPlaceCounts[i], 1.0F);
      float* values = owner->data();
      const std::weak_ptr<void> seen = owner;
      reducer.start_into(i, values, values, 1, std::move(owner));
      EXPECT_FALSE(seen.expired());
      std::vector<float> out(kInPlaceCounts[i]);
      reducer.finish(i, out.data());
      EXPECT_TRUE(out == std::vector<float>(kInPlaceCounts[i], static_cast<float>(size())));
      EXPECT_TRUE(seen.expired());
    }
  });
}

// What has been started is summed, although its reducer is gone on one rank.
TEST_P(InPlace, OwnersOutliveAReducerThatIsDroppedInTheMiddle) {
  std::vector<std::weak_ptr<void>> seen(static_cast<std::size_t>(size()));
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    auto reducer = std::make_unique<GradientReducer>(runtime.world(), in_place_plan(0), "g");
    auto owner = std::make_shared<std::vector<float>>(kInPlaceCounts[kLarge], 1.0F);
    float* values = owner->data();
    seen[static_cast<std::size_t>(rank)] = owner;
    reducer->start_into(kLarge, values, values, 1, std::move(owner));
    if (rank == 0) {
      reducer.reset();
    } else {
      reducer->finish(kLarge, nullptr);
    }
    runtime.world()->start(Call{})->wait(0, {});
  });
  for (const auto& owner : seen) EXPECT_TRUE(owner.expired());
}

TEST_P(InPlace, AFinishMustSayWhereTheSumIsPutIfTheStartDidNot) {
  run_job(GetParam().job, [&](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(0), "g");
    std::vector<float> values(kInPlaceCounts[kLarge], 1);
    reducer.start(kLarge, values.data(), 1);
    EXPECT_THROW(reducer.finish(kLarge, nullptr), UsageError);
    reducer.finish(kLarge, values.data());
    EXPECT_EQ(values.back(), static_cast<float>(size()));
  });
}

std::vector<NamedJob> in_place_jobs() {
  std::vector<NamedJob> jobs;
  for (const int size : {1, 2, 3, 4}) jobs.push_back(tests::shared_memory(size));
  jobs.push_back(tests::put_only(2));
  jobs.push_back(tests::on_hosts(2, 2));
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Jobs, InPlace, ::testing::ValuesIn(in_place_jobs()), tests::name_of_job);

TEST(InPlaceChoice, LargeTensorsOfAHostAreSummedWhereTheyAre) {
  tests::run_threads(2, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(32768), "g");
    EXPECT_TRUE(reducer.is_summed_in_place(kLarge));
    EXPECT_FALSE(reducer.is_summed_in_place(0));
  });
  run_job(tests::put_only(2).job, [](Runtime& runtime) {
    GradientReducer reducer(runtime.world(), in_place_plan(32768), "g");
    EXPECT_FALSE(reducer.is_summed_in_place(kLarge));
  });
}

TEST(InPlaceUsage, AStartThatDoesNotSayWhereTheSumIsToBePutIsRefusedAndChangesNothing) {
  tests::run_threads(1, [](Runtime& runtime) {
    const FusionPlan plan({{.name = "t", .num_elements = 50000}}, 0);
    GradientReducer reducer(runtime.world(), plan, "g");
    std::vector<float> values(50000, 3.0F);
    EXPECT_THROW(reducer.start_into(0, values.data(), nullptr, 1.0, nullptr), UsageError);
    reducer.start_into(0, values.data(), values.data(), 2.0, nullptr);
    reducer.finish(0, values.data());
    EXPECT_EQ(values, std::vector<float>(50000, 6.0F));
  });
}

}  // namespace
}  // namespace tnt::comm
