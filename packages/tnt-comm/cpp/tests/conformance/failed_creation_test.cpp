// A rank that cannot create its part of something: nobody gets it, and all go on.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "networks.hpp"
#include "objects.hpp"

namespace tnt::comm {
namespace {

using tests::created_objects;
using tests::CreatedObject;
using tests::error_of;
using tests::FaultyTransport;
using tests::NamedJob;
using tests::run_job;
using tests::SegmentFault;
using tests::sum_of_ones;
using When = SegmentFault::When;

constexpr int kFailing = 1;
constexpr int kMostSegments = 3;  // of an object: with two levels
constexpr const char* kReason = "out of memory on purpose";

int rank_of(const Runtime& runtime) {
  return runtime.environment().rank;
}

class FailedCreation : public ::testing::TestWithParam<NamedJob> {
 protected:
  /// Creates something of which rank 1 cannot have a segment, if it has so many.
  static void expect_failure(Runtime& runtime, const CreatedObject& object,
                             const SegmentFault& fault, std::atomic<bool>& has_failed) {
    Group& world = *runtime.world();
    const bool is_failing = rank_of(runtime) == kFailing;
    if (is_failing) FaultyTransport::set_fault(fault);
    std::string what;
    try {
      object.create_and_use(runtime);
    } catch (const Error& error) {
      what = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::comm) << what;
    }
    if (is_failing) has_failed.store(FaultyTransport::set_fault(std::nullopt));
    EXPECT_EQ(sum_of_ones(world), world.size());
    std::string expected;
    if (has_failed) {
      expected = is_failing ? kReason
                            : text(object.title, " could not be created, since rank ", kFailing,
                                   " failed: ", kReason);
    }
    EXPECT_EQ(what, expected) << object.title << ", segment " << fault.index;
    EXPECT_EQ(runtime.transport().status_of(kFailing).state, PeerState::running);
    EXPECT_EQ(sum_of_ones(world), world.size());  // nobody fails again before all have seen it
  }
};

TEST_P(FailedCreation, EndsForAllMembersAndNothingElseDoes) {
  for (const CreatedObject& object : created_objects()) {
    std::atomic<bool> has_failed{false};
    std::atomic<bool> has_ever_failed{false};
    run_job(GetParam().job, [&](Runtime& runtime) {
      const auto other = Group::create(runtime, runtime.world()->ranks(), "other");
      for (int index = 0; index < kMostSegments; ++index) {
        expect_failure(runtime, object, {index, When::before_others_know}, has_failed);
        if (has_failed) has_ever_failed.store(true);
        EXPECT_EQ(sum_of_ones(*other), other->size());
        object.create_and_use(runtime);
      }
    });
    EXPECT_TRUE(has_ever_failed || object.title.starts_with("an array")) << object.title;
  }
}

// Others may have the last segment then, and would use the object.
TEST_P(FailedCreation, OfAnObjectEndsForThoseWhoHaveTheirPartAsWell) {
  for (const CreatedObject& object : created_objects()) {
    if (object.title.starts_with("group")) continue;
    std::atomic<bool> has_failed{false};
    run_job(GetParam().job, [&](Runtime& runtime) {
      for (int index = 0; index < kMostSegments; ++index) {
        expect_failure(runtime, object, {index, When::when_others_have_theirs}, has_failed);
        object.create_and_use(runtime);
      }
    });
  }
}

// Each failure is known to who comes later, and which group it is of.
TEST_P(FailedCreation, OfGroupsIsToldToWhoComesLater) {
  constexpr std::array<const char*, 3> kNames = {"one", "two", "three"};
  run_job(GetParam().job, [&](Runtime& runtime) {
    const std::vector<int>& ranks = runtime.world()->ranks();
    const auto create = [&](const char* name) { Group::create(runtime, ranks, name); };
    if (rank_of(runtime) == kFailing) {
      for (const char* name : kNames) {
        FaultyTransport::set_fault(SegmentFault{});
        EXPECT_STREQ(error_of([&] { create(name); }).what(), kReason);
      }
    }
    EXPECT_EQ(sum_of_ones(*runtime.world()), runtime.world()->size());
    if (rank_of(runtime) != kFailing) {
      for (const char* name : kNames) {
        EXPECT_EQ(error_of([&] { create(name); }).what(),
                  text("group '", name, "' could not be created, since rank 1 failed: ", kReason));
      }
    }
    const auto group = Group::create(runtime, ranks, "four");
    EXPECT_EQ(sum_of_ones(*group), group->size());
  });
}

TEST_P(FailedCreation, IsNamedWhenItsRankEndsAfterwards) {
  run_job(GetParam().job, [](Runtime& runtime) {
    Group& world = *runtime.world();
    if (rank_of(runtime) == kFailing) FaultyTransport::set_fault(SegmentFault{});
    error_of([&] { Group::create(runtime, world.ranks(), "lost"); });
    EXPECT_EQ(sum_of_ones(world), world.size());
    if (rank_of(runtime) == kFailing) return;
    const Error error = error_of([&] { sum_of_ones(world); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    EXPECT_NE(std::string(error.what()).find(kReason), std::string::npos) << error.what();
  });
}

TEST_P(FailedCreation, OfTheJobIsTheEndOfItsRank) {
  tests::Job job = GetParam().job;
  std::atomic<int> num_failed{0};
  job.change = [&](Environment& environment) {
    if (environment.rank == kFailing) FaultyTransport::set_fault(SegmentFault{});
  };
  const Error error = error_of([&] { run_job(job, [&](Runtime&) { ++num_failed; }); });
  EXPECT_EQ(num_failed, 0);
  EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
  EXPECT_NE(std::string(error.what()).find(kReason), std::string::npos) << error.what();
}

TEST_P(FailedCreation, IsNoReasonToForgetAnEarlierOne) {
  run_job(GetParam().job, [](Runtime& runtime) {
    EXPECT_EQ(sum_of_ones(*runtime.world()), runtime.world()->size());
    if (rank_of(runtime) == kFailing) {
      runtime.transport().leave(PeerState::failed, "first");
      runtime.transport().leave(PeerState::failed, "second");
      return runtime.finish();
    }
    const Deadline deadline(20);
    const auto status = [&] { return runtime.transport().status_of(kFailing); };
    while (status().state == PeerState::running && !deadline.is_over()) std::this_thread::yield();
    EXPECT_EQ(status().state, PeerState::failed);
    EXPECT_EQ(status().reason, "first");
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, FailedCreation,
                         ::testing::Values(tests::shared_memory(3), tests::put_only(3),
                                           tests::on_hosts(2, 2), tests::late(tests::put_only(3))),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
