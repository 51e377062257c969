// Ranks that wait for each other, some of them in the creation of a group.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "networks.hpp"
#include "objects.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::Job;
using tests::NamedJob;
using tests::run_job;
using tests::sum_of_ones;

constexpr double kSoonS = 0.2;
constexpr auto kLongerThanSoon = std::chrono::milliseconds(500);

std::shared_ptr<Group> create(Runtime& runtime, std::vector<int> ranks, std::string_view caller) {
  std::string name = "ranks";
  for (const int rank : ranks) name += text(" ", rank);
  return Group::create(runtime, std::move(ranks), name, {"", caller});
}

void call_barrier(Group& group, std::string_view caller = "") {
  group.start(Call{}, Group::Driver::caller, {"", caller})->wait(0);
}

std::vector<int> all_but_rank_1(Runtime& runtime) {
  std::vector<int> ranks = runtime.world()->ranks();
  std::erase(ranks, 1);
  return ranks;
}

void expect_loss(const std::function<void()>& call, const std::string& phrase) {
  const Error error = error_of(call);
  const std::string what = error.what();
  EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << what;
  EXPECT_NE(what.find(phrase), std::string::npos) << what;
}

class Creation : public ::testing::TestWithParam<NamedJob> {
 protected:
  /// Ranks look soon for others that wait for them in another call.
  static Job impatient_job() {
    Job job = GetParam().job;
    job.change = [](Environment& environment) { environment.stall_report_s = kSoonS; };
    return job;
  }

  /// What all ranks fail with, which must be a mismatch that says all of this.
  static void expect_mismatch(const std::function<void(Runtime&)>& call,
                              const std::vector<std::string>& phrases) {
    tests::Violations violations;
    Job job = impatient_job();
    job.violations = &violations;  // a group that breaks tells so without asking for room
    run_job(job, [&](Runtime& runtime) {
      const Error error = error_of([&] { call(runtime); });
      const std::string what = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::mismatch) << what;
      for (const std::string& phrase : phrases) {
        EXPECT_NE(what.find(phrase), std::string::npos) << phrase << "\nis not in\n" << what;
      }
      // Nobody ends before all have seen the same.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    EXPECT_EQ(violations.num_not_growing, 0);
    EXPECT_EQ(violations.num_out_of_bounds, 0);
  }
};

TEST_P(Creation, OfDifferentGroupsIsAMismatchOnAllRanks) {
  expect_mismatch(
      [](Runtime& runtime) {
        if (runtime.environment().rank == 0) {
          create(runtime, {0, 1}, "a.py:1");
        } else {
          create(runtime, runtime.world()->ranks(), "b.py:2");
        }
      },
      {"creates group 'ranks 0 1' from a.py:1", "group 'ranks 0 1 2", "from b.py:2",
       "Every member of a group must create it"});
}

TEST_P(Creation, IsAMismatchWithACollectiveOfTheOthers) {
  expect_mismatch(
      [](Runtime& runtime) {
        if (runtime.environment().rank == 0) {
          create(runtime, runtime.world()->ranks(), "a.py:1");
        } else {
          call_barrier(*runtime.world(), "b.py:2");
        }
      },
      {"rank 0 creates group 'ranks 0 1 2", "from a.py:1, while rank", "waits for it in",
       "barrier() from b.py:2, of group 'world'"});
}

TEST_P(Creation, IsAMismatchWithABucketThatTheOthersHaveStarted) {
  expect_mismatch(
      [](Runtime& runtime) {
        GradientReducer reducer(runtime.world(), FusionPlan({{"kernel", DType::float32, 10}}, 0),
                                "gradients");
        if (runtime.environment().rank == 0) {
          create(runtime, runtime.world()->ranks(), "a.py:1");
        }
        std::vector<float> data(10);
        reducer.start(0, data.data(), 1.0);
        reducer.finish(0, data.data(), 0);
      },
      {"rank 0 creates group 'ranks 0 1 2", "from a.py:1, while rank",
       "step 0 of bucket 0 of 'gradients' ('kernel')"});
}

// The second group of the same ranks is another one than the first.
TEST_P(Creation, OfAGroupThatOthersHaveCreatedOnceIsAMismatchTheSecondTime) {
  expect_mismatch(
      [](Runtime& runtime) {
        const auto first = create(runtime, runtime.world()->ranks(), "a.py:1");
        EXPECT_EQ(sum_of_ones(*first), static_cast<float>(first->size()));
        if (runtime.environment().rank == 0) {
          create(runtime, runtime.world()->ranks(), "a.py:2");
        } else {
          call_barrier(*first, "b.py:3");
        }
      },
      {"rank 0 creates group 'ranks 0 1 2", "from a.py:2, while rank", "barrier() from b.py:3"});
}

TEST_P(Creation, OfTheSameRanksMayFollowEachOtherHoweverLateTheyCome) {
  run_job(impatient_job(), [](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    std::vector<std::shared_ptr<Group>> groups;
    for (int late = 0; late < 2; ++late) {
      if (rank == late) std::this_thread::sleep_for(kLongerThanSoon);
      groups.push_back(create(runtime, runtime.world()->ranks(), "a.py:1"));
    }
    for (const auto& group : groups) EXPECT_EQ(sum_of_ones(*group), runtime.world()->size());
  });
}

// A wait for a rank that has waited long for others, and is done with that.
TEST_P(Creation, ThatIsOverIsNoMismatchWithLaterCalls) {
  run_job(impatient_job(), [](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    if (rank == 1) std::this_thread::sleep_for(kLongerThanSoon);
    const auto group = create(runtime, runtime.world()->ranks(), "a.py:1");
    if (rank == 0) std::this_thread::sleep_for(kLongerThanSoon);
    EXPECT_EQ(sum_of_ones(*runtime.world()), runtime.world()->size());
    EXPECT_EQ(sum_of_ones(*group), runtime.world()->size());
  });
}

// Rank 1 ends when the others have told it that they wait for it.
TEST_P(Creation, EndsWhenAMemberEndsMeanwhile) {
  run_job(impatient_job(), [](Runtime& runtime) {
    call_barrier(*runtime.world());
    if (runtime.environment().rank == 1) return std::this_thread::sleep_for(kLongerThanSoon);
    expect_loss([&] { create(runtime, runtime.world()->ranks(), "a.py:1"); }, "rank 1");
  });
}

TEST_P(Creation, ThatHasFailedWithALostRankLetsTheOthersGoOn) {
  run_job(impatient_job(), [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    std::shared_ptr<Group> survivors;
    if (rank != 1) survivors = create(runtime, all_but_rank_1(runtime), "a.py:1");
    call_barrier(*runtime.world());
    if (rank == 1) return std::this_thread::sleep_for(kLongerThanSoon);
    expect_loss([&] { create(runtime, runtime.world()->ranks(), "a.py:2"); }, "rank 1");
    EXPECT_EQ(sum_of_ones(*survivors), survivors->size());
    EXPECT_EQ(runtime.transport().status_of(0).state, PeerState::running);
    EXPECT_EQ(sum_of_ones(*survivors), survivors->size());
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, Creation,
                         ::testing::Values(tests::shared_memory(3), tests::put_only(3),
                                           tests::on_hosts(2, 2), tests::late(tests::put_only(3))),
                         tests::name_of_job);

constexpr std::uint64_t kMembers = 77;  // the number of some list of ranks

class Notices : public ::testing::TestWithParam<NamedJob> {
 protected:
  /// In each turn rank 0 does the first thing, then rank 1 the second.
  struct Turn {
    std::function<void(Rendezvous&)> tell;
    std::function<void(Rendezvous&)> look;
  };

  static void take_turns(const std::vector<Turn>& turns) {
    Job job = GetParam().job;
    job.change = [](Environment& environment) { environment.stall_report_s = 60; };
    run_job(job, [&](Runtime& runtime) {
      Rendezvous& creations = *runtime.world()->abort_state()->rendezvous();
      for (const auto& [tell, look] : turns) {
        if (runtime.environment().rank == 0) tell(creations);
        call_barrier(*runtime.world());
        if (runtime.environment().rank == 1) look(creations);
        call_barrier(*runtime.world());
      }
    });
  }

  static std::string seen(const Rendezvous& creations) {
    return creations.awaited_by(0).value_or("none");
  }

  static constexpr CreationId first{.members = 77, .use = 0};
  static constexpr CreationId second{.members = 77, .use = 1};
  static constexpr CreationId other{.members = 78, .use = 0};
};

TEST_P(Notices, AreSeenUntilTheCreationIsBegunOrWithdrawn) {
  take_turns({{[](Rendezvous& own) { own.tell({0, 1}, first, "one"); },
               [](Rendezvous& own) {
                 EXPECT_EQ(seen(own), "one");
                 own.begin(first);
                 EXPECT_EQ(seen(own), "none");
               }},
              {[](Rendezvous& own) { own.withdraw(first); },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "none"); }},
              {[](Rendezvous& own) { own.tell({0, 1}, other, "other"); },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "other"); }},
              {[](Rendezvous& own) { own.withdraw(other); },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "none"); }}});
}

// Rank 0 may still wait for others when rank 1 is done, and begins the next one.
TEST_P(Notices, AreNotSeenWhenALaterCreationOfTheSameMembersIsBegun) {
  take_turns({{[](Rendezvous& own) { own.tell({0, 1}, first, "one"); },
               [](Rendezvous& own) {
                 own.begin(first);
                 own.begin(second);
                 EXPECT_EQ(seen(own), "none");
               }}});
}

TEST_P(Notices, OfTheNextCreationOfTheSameMembersAreSeen) {
  take_turns({{[](Rendezvous& own) { own.tell({0, 1}, second, "two"); },
               [](Rendezvous& own) {
                 own.begin(first);
                 own.begin(other);
                 EXPECT_EQ(seen(own), "two");
                 own.begin(second);
                 EXPECT_EQ(seen(own), "none");
               }}});
}

// Threads of a rank that create groups at once share its one notice.
TEST_P(Notices, AreWithdrawnByTheCreationThatTheyAreOfAndMakeRoomForAnother) {
  take_turns({{[](Rendezvous& own) {
                 own.tell({0, 1}, first, "one");
                 own.tell({0, 1}, other, "other");
                 own.withdraw(other);
               },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "one"); }},
              {[](Rendezvous& own) {
                 own.withdraw(first);
                 own.tell({0, 1}, other, "other");
               },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "other"); }},
              {[](Rendezvous& own) { own.withdraw(other); },
               [](Rendezvous& own) { EXPECT_EQ(seen(own), "none"); }}});
}

TEST_P(Notices, OfRefusalsKeepTheirFirstReason) {
  take_turns({{[](Rendezvous&) {}, [](Rendezvous& own) { EXPECT_EQ(own.refusal(), std::nullopt); }},
              {[](Rendezvous& own) {
                 own.refuse("one");
                 own.refuse("two");
               },
               [](Rendezvous& own) { EXPECT_EQ(own.refusal(), "one"); }}});
}

INSTANTIATE_TEST_SUITE_P(Networks, Notices,
                         ::testing::Values(tests::shared_memory(2), tests::put_only(3),
                                           tests::late(tests::put_only(2))),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
