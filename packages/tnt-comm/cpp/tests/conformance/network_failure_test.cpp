// What goes wrong between ranks that only put into each other's memory is told
// as it is between those that read it.

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "errors.hpp"
#include "networks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::Job;
using tests::NamedJob;
using tests::run_job;
using tests::Violations;

/// Runs something that fails on all ranks; what each of them says. A group that
/// breaks tells so without asking for room.
std::vector<Error> errors_of(Job job, const std::function<void(Runtime&)>& function) {
  Violations violations;
  job.violations = &violations;
  std::vector<Error> errors(static_cast<std::size_t>(job.size), {ErrorKind{}, ""});
  run_job(job, [&](Runtime& runtime) {
    const auto rank = static_cast<std::size_t>(runtime.environment().rank);
    errors[rank] = error_of([&] { function(runtime); });
    // Nobody ends before all have seen the same.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_EQ(violations.num_not_growing, 0);
  EXPECT_EQ(violations.num_out_of_bounds, 0);
  return errors;
}

class NetworkMismatch : public ::testing::TestWithParam<NamedJob> {
 protected:
  /// `odd`: what the last rank calls while the others call `common`.
  static void expect_same_text(const std::function<void(Group&)>& common,
                               const std::function<void(Group&)>& odd,
                               const std::vector<std::string>& phrases) {
    const int last = GetParam().job.size - 1;
    const auto errors = errors_of(GetParam().job, [&](Runtime& runtime) {
      (runtime.environment().rank == last ? odd : common)(*runtime.world());
    });
    for (const Error& error : errors) {
      const std::string what = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::mismatch) << what;
      for (const std::string& phrase : phrases) {
        EXPECT_NE(what.find(phrase), std::string::npos) << phrase << "\n" << what;
      }
    }
  }
};

void allreduce(Group& group, std::size_t count, DType dtype, ReduceOp op) {
  std::vector<std::byte> data(count * 8);
  group
      .start({.kind = CollectiveKind::allreduce,
              .in = data.data(),
              .out = data.data(),
              .count = count,
              .dtype = dtype,
              .op = op})
      ->wait(0);
}

TEST_P(NetworkMismatch, OfSizesNamesBoth) {
  expect_same_text([](Group& group) { allreduce(group, 10, DType::float32, ReduceOp::sum); },
                   [](Group& group) { allreduce(group, 5, DType::float32, ReduceOp::sum); },
                   {"Collective call 0", "allreduce(float32, 10 elements, sum)",
                    "allreduce(float32, 5 elements, sum)"});
}

TEST_P(NetworkMismatch, OfSmallAndVeryLargeArraysNamesBoth) {
  expect_same_text([](Group& group) { allreduce(group, 10, DType::float32, ReduceOp::sum); },
                   [](Group& group) { allreduce(group, 900001, DType::float32, ReduceOp::sum); },
                   {"10 elements", "900001 elements"});
}

TEST_P(NetworkMismatch, OfTypesAndOperationsNamesBoth) {
  expect_same_text([](Group& group) { allreduce(group, 10, DType::float32, ReduceOp::sum); },
                   [](Group& group) { allreduce(group, 10, DType::int64, ReduceOp::max); },
                   {"float32, 10 elements, sum", "int64, 10 elements, max"});
}

TEST_P(NetworkMismatch, OfCollectivesNamesBoth) {
  expect_same_text([](Group& group) { allreduce(group, 300000, DType::float32, ReduceOp::sum); },
                   [](Group& group) { group.start(Call{})->wait(0); },
                   {"allreduce(float32", "barrier()"});
}

TEST_P(NetworkMismatch, OfRootsNamesBoth) {
  const auto broadcast = [](Group& group, int root) {
    std::vector<float> data(100000);
    group
        .start({.kind = CollectiveKind::broadcast,
                .in = data.data(),
                .out = data.data(),
                .count = data.size(),
                .dtype = DType::float32,
                .root = root})
        ->wait(0);
  };
  expect_same_text([&](Group& group) { broadcast(group, 0); },
                   [&](Group& group) { broadcast(group, 1); }, {"root 0", "root 1"});
}

TEST_P(NetworkMismatch, AllreducedArraysAreLeftAloneWhenTheCallsDiffer) {
  errors_of(GetParam().job, [](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const std::vector<float> before(100 + static_cast<std::size_t>(rank), 1.0F);
    std::vector<float> data = before;
    try {
      runtime.world()
          ->start({.kind = CollectiveKind::allreduce,
                   .in = data.data(),
                   .out = data.data(),
                   .count = data.size(),
                   .dtype = DType::float32,
                   .op = ReduceOp::sum})
          ->wait(0);
    } catch (...) {
      EXPECT_EQ(data, before);
      throw;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkMismatch,
                         ::testing::Values(tests::shared_memory(3), tests::put_only(2),
                                           tests::put_only(5), tests::late(tests::put_only(3)),
                                           tests::on_hosts(2, 2)),
                         tests::name_of_job);

class NetworkWait : public ::testing::TestWithParam<NamedJob> {
 protected:
  static constexpr int kLate = 1;

  /// All but one rank wait for something for a short time; what they say. The
  /// function gets whether the rank is the late one, which must not wait.
  static std::string wait_in_vain(const std::function<void(Runtime&, bool)>& wait) {
    const auto errors = errors_of(GetParam().job, [&](Runtime& runtime) {
      const bool is_late = runtime.environment().rank == kLate;
      wait(runtime, is_late);
      if (!is_late) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(900));
      throw Error(ErrorKind::usage, "was late");
    });
    std::string all;
    for (int rank = 0; rank < GetParam().job.size; ++rank) {
      if (rank != kLate) all += text(errors[static_cast<std::size_t>(rank)].what(), "\n");
    }
    return all;
  }

  static void expect_only_the_late_one(const std::string& errors) {
    EXPECT_NE(errors.find("it waits for rank 1 (host"), std::string::npos) << errors;
    EXPECT_NE(errors.find("has not called it yet"), std::string::npos) << errors;
    for (int rank = 0; rank < GetParam().job.size; ++rank) {
      if (rank == kLate) continue;
      EXPECT_EQ(errors.find(text("waits for rank ", rank, " (host")), std::string::npos) << errors;
      EXPECT_EQ(errors.find(text("; rank ", rank, " (host")), std::string::npos) << errors;
    }
  }
};

// Every rank, also one that hears from the late one through others only.
TEST_P(NetworkWait, NamesTheRankThatHasNotCalled) {
  const std::string errors = wait_in_vain([](Runtime& runtime, bool is_late) {
    if (is_late) return;
    std::vector<float> data(1000);
    runtime.world()
        ->start({.kind = CollectiveKind::allreduce,
                 .in = data.data(),
                 .out = data.data(),
                 .count = data.size(),
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0.6);
  });
  EXPECT_NE(errors.find("allreduce(float32, 1000 elements, sum)"), std::string::npos);
  expect_only_the_late_one(errors);
}

TEST_P(NetworkWait, NamesTheBucketThatARankHasNotStarted) {
  const std::string errors = wait_in_vain([](Runtime& runtime, bool is_late) {
    GradientReducer reducer(runtime.world(), FusionPlan({{"kernel", DType::float32, 50000}}, 0),
                            "gradients");
    if (is_late) return;
    std::vector<float> data(50000);
    reducer.start(0, data.data(), 1.0);
    reducer.finish(0, data.data(), 0.6);
  });
  EXPECT_NE(errors.find("step 0 of bucket 0 of 'gradients' ('kernel')"), std::string::npos);
  expect_only_the_late_one(errors);
}

TEST_P(NetworkWait, EndsWhenARankHasFinishedWithoutTheCall) {
  const std::string errors = [] {
    Violations violations;
    Job job = GetParam().job;
    job.violations = &violations;
    std::mutex mutex;
    std::string all;
    run_job(job, [&](Runtime& runtime) {
      runtime.world()->start(Call{})->wait(0);
      if (runtime.environment().rank == kLate) return;
      const Error error = error_of([&] { runtime.world()->start(Call{})->wait(0); });
      const std::lock_guard lock(mutex);
      all += error.what();
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
    });
    return all;
  }();
  EXPECT_NE(errors.find("needs rank 1"), std::string::npos) << errors;
  EXPECT_NE(errors.find("has finished"), std::string::npos) << errors;
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkWait,
                         ::testing::Values(tests::put_only(5), tests::on_hosts(2, 4)),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
