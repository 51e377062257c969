// A rank that cannot create its part of something, over a network between threads.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "errors.hpp"
#include "gpi2_ranks.hpp"
#include "objects.hpp"

namespace tnt::comm {
namespace {

using tests::FakeFabric;
using tests::sum_of_ones;

constexpr int kFailing = 1;
constexpr int kMostSegments = 3;  // of an object: with two levels
constexpr const char* kReason = "out of memory on purpose";

void run_job(int num_nodes, int per_node,
             const std::function<void(FakeFabric&, Runtime&)>& function) {
  tests::run_transports_on_fabric(num_nodes, per_node,
                                  [&](FakeFabric& fabric, std::unique_ptr<Transport> transport,
                                      const Environment& environment) {
                                    Runtime runtime(environment, std::move(transport));
                                    function(fabric, runtime);
                                  });
}

void expect_failures(int num_nodes, int per_node) {
  std::atomic<int> num_failures{0};
  run_job(num_nodes, per_node, [&](FakeFabric& fabric, Runtime& runtime) {
    Group& world = *runtime.world();
    const bool is_failing = runtime.environment().rank == kFailing;
    for (const tests::CreatedObject& object : tests::created_objects()) {
      for (int index = 0; index < kMostSegments; ++index) {
        if (is_failing) fabric.fail_allocation(kFailing, index);
        std::string what;
        try {
          object.create_and_use(runtime);
        } catch (const Error& error) {
          what = error.what();
        }
        if (is_failing && fabric.has_failed_allocation(kFailing)) {
          ++num_failures;
          EXPECT_EQ(what, kReason);
        } else if (!is_failing && !what.empty()) {
          EXPECT_EQ(what, text(object.title, " could not be created, since rank ", kFailing,
                               " failed: ", kReason));
        }
        EXPECT_EQ(runtime.transport().status_of(kFailing).state, PeerState::running);
        EXPECT_EQ(sum_of_ones(world), world.size());
        object.create_and_use(runtime);
      }
    }
  });
  EXPECT_GE(num_failures, 3);
}

TEST(Gpi2FailedCreation, EndsForAllMembersAndNothingElseDoes) {
  expect_failures(1, 3);
}

TEST(Gpi2FailedCreation, EndsForAllMembersOnSeveralHosts) {
  expect_failures(2, 2);
}

// There are 255 ids.
TEST(Gpi2FailedCreation, LetsTheIdsOfItsSegmentsBeUsedAgain) {
  run_job(1, 3, [](FakeFabric& fabric, Runtime& runtime) {
    for (int i = 0; i < 300; ++i) {
      if (runtime.environment().rank == kFailing) fabric.fail_allocation(kFailing, 0);
      const Error error = tests::error_of([&] { Gatherer(runtime.world(), "rows"); });
      ASSERT_NE(std::string(error.what()).find(kReason), std::string::npos) << error.what();
    }
  });
}

TEST(Gpi2FailedCreation, OfTheJobIsTheEndOfItsRank) {
  tests::run_transports_on_fabric(
      1, 3,
      [](FakeFabric& fabric, std::unique_ptr<Transport> transport, const Environment& environment) {
        const bool is_failing = environment.rank == kFailing;
        if (is_failing) fabric.fail_allocation(kFailing, 0);
        const Error error =
            tests::error_of([&] { Runtime runtime(environment, std::move(transport)); });
        EXPECT_EQ(error.kind(), is_failing ? ErrorKind::comm : ErrorKind::peer_lost);
        EXPECT_NE(std::string(error.what()).find(kReason), std::string::npos) << error.what();
      });
}

}  // namespace
}  // namespace tnt::comm
