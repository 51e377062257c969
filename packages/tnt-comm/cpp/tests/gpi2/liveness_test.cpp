// Who lives, who has left and who is lost, over a network between threads.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "captured_stderr.hpp"
#include "gpi2_ranks.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using tests::comes_true;
using tests::FabricRank;
using tests::run_on_fabric;

// As the engine of a rank does.
void beat_for(FabricRank rank, double seconds) {
  const Deadline end(seconds);
  while (!end.is_over()) {
    rank.transport.beat();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

template <typename Predicate>
bool comes_true_while_beating(FabricRank rank, Predicate&& predicate) {
  return comes_true([&] {
    rank.transport.beat();
    return predicate();
  });
}

TEST(Gpi2Liveness, EveryRankIsKnownByHostAndPid) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    for (int other = 0; other < 3; ++other) {
      const PeerStatus status = rank.transport.status_of(other);
      EXPECT_EQ(status.state, PeerState::running);
      EXPECT_EQ(status.pid, ::getpid());
      EXPECT_FALSE(status.host.empty());
      EXPECT_EQ(rank.transport.node_of(other), 0);
    }
  });
}

TEST(Gpi2Liveness, AKilledRankIsDeadForAll) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    if (rank.rank() == 1) {
      rank.fabric.kill(1);
      return;
    }
    const auto status = [&] { return rank.transport.status_of(1); };
    EXPECT_TRUE(comes_true_while_beating(rank, [&] { return status().state == PeerState::dead; }));
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Liveness, ARankWhoseServiceHasFailedGoesOnWatchingTheOthers) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 1) {
      EXPECT_TRUE(comes_true_while_beating(
          rank, [&] { return rank.transport.status_of(0).state == PeerState::finished; }));
      return;
    }
    const tests::CapturedStderr captured;
    rank.fabric.fail_looks(0, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(captured.text(),
              "WARNING tnt-comm rank 0: fabric has failed: the look has failed "
              "[network-failed]\n");
    beat_for(rank, 1.5);
    EXPECT_LT(rank.transport.status_of(1).heartbeat_age_s, 1.0);
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Liveness, AStoppedRankIsSilentAndNothingElse) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 0) {
      rank.fabric.stop(1);
      // Nothing of rank 1 runs: it does not beat.
      beat_for(rank, 1.2);
      EXPECT_GT(rank.transport.status_of(1).heartbeat_age_s, 0.5);
      EXPECT_EQ(rank.transport.status_of(1).state, PeerState::running);
      rank.fabric.resume(1);
      rank.transport.leave(PeerState::finished, "");
      return;
    }
    EXPECT_TRUE(
        comes_true([&] { return rank.transport.status_of(0).state == PeerState::finished; }));
  });
}

TEST(Gpi2Liveness, AHostThatVanishesIsNamedByAllOthers) {
  const auto adjust = [](Environment& environment) { environment.stall_report_s = 0.1; };
  run_on_fabric(
      3, 1,
      [](FabricRank rank) {
        const int lost = 2;
        if (rank.rank() == lost) rank.fabric.cut_off(lost);
        const int awaited = rank.rank() == lost ? 0 : lost;
        const auto status = [&] { return rank.transport.status_of(awaited); };
        EXPECT_TRUE(
            comes_true_while_beating(rank, [&] { return status().state == PeerState::vanished; }));
        EXPECT_NE(
            status().reason.find(text("its host host-of-", awaited, " was last heard from 3")),
            std::string::npos)
            << status().reason;
        if (rank.rank() != lost) {
          EXPECT_EQ(rank.transport.status_of(1 - rank.rank()).state, PeerState::running);
        }
        try {
          rank.create("all", {0, 1, 2}, 64, 1);
          ADD_FAILURE() << "created";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
        }
      },
      adjust);
}

TEST(Gpi2Liveness, AHostWhoseProcessIsStoppedIsNotTakenForGone) {
  const auto adjust = [](Environment& environment) { environment.stall_report_s = 0.1; };
  run_on_fabric(
      2, 1,
      [](FabricRank rank) {
        if (rank.rank() == 1) {
          // Nothing of it runs: it does not beat.
          EXPECT_TRUE(
              comes_true([&] { return rank.transport.status_of(0).state == PeerState::finished; }));
          return;
        }
        rank.fabric.stop(1);
        EXPECT_TRUE(comes_true_while_beating(
            rank, [&] { return rank.transport.status_of(1).heartbeat_age_s > 4; }));
        EXPECT_EQ(rank.transport.status_of(1).state, PeerState::running);
        rank.fabric.resume(1);
        rank.transport.leave(PeerState::finished, "");
      },
      adjust);
}

TEST(Gpi2Liveness, BeatsKeepTheSilenceShort) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    beat_for(rank, 1.5);
    EXPECT_LT(rank.transport.status_of(1 - rank.rank()).heartbeat_age_s, 1.0);
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Liveness, WhoLeavesSaysWhyAndIsHeardBeforeItIsGone) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 0) {
      rank.transport.leave(PeerState::failed, "the dog ate it");
      rank.fabric.kill(0);  // the process ends at once
      return;
    }
    const auto status = [&] { return rank.transport.status_of(0); };
    EXPECT_TRUE(
        comes_true_while_beating(rank, [&] { return status().state == PeerState::failed; }));
    EXPECT_EQ(status().reason, "the dog ate it");
    beat_for(rank, 0.6);  // beats to it fail now, which changes nothing
    EXPECT_EQ(status().state, PeerState::failed);
  });
}

TEST(Gpi2Liveness, WhatARankSaysFirstOfItsEndCounts) {
  PeerTable peers(0, 2);
  peers.left(1, PeerState::failed, "first");
  peers.left(1, PeerState::finished, "second");
  peers.mark_dead(1);
  EXPECT_EQ(peers.status_of(1).state, PeerState::failed);
  EXPECT_EQ(peers.status_of(1).reason, "first");
}

TEST(Gpi2Liveness, WhoHasFailedStaysSoWhenItEnds) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 1) {
      rank.transport.leave(PeerState::failed, "the dog ate it");
      rank.transport.leave(PeerState::finished, "");
      return;
    }
    const auto status = [&] { return rank.transport.status_of(1); };
    EXPECT_TRUE(
        comes_true_while_beating(rank, [&] { return status().state != PeerState::running; }));
    beat_for(rank, 0.1);  // the second message would come now
    EXPECT_EQ(status().state, PeerState::failed);
    EXPECT_EQ(status().reason, "the dog ate it");
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Liveness, LeavingDoesNotWaitLongForAStoppedRank) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 0) {
      rank.fabric.stop(1);
      rank.transport.leave(PeerState::finished, "");
      rank.fabric.resume(1);
      return;
    }
    EXPECT_TRUE(
        comes_true([&] { return rank.transport.status_of(0).state == PeerState::finished; }));
  });
}

TEST(Gpi2Liveness, OthersGoOnAfterARankIsLost) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    const auto all = rank.create("all", {0, 1, 2}, 64, 3);
    if (rank.rank() != 2) all->notify(2, 2, 1);  // has created it
    if (rank.rank() == 2) {
      EXPECT_TRUE(comes_true_while_beating(
          rank, [&] { return all->poll(0, 2) == 1 && all->poll(1, 2) == 1; }));
      rank.fabric.kill(2);
      return;
    }
    const auto dead = [&] { return rank.transport.status_of(2).state == PeerState::dead; };
    // Data to the lost rank fails and spoils the queue of the segment.
    for (std::uint64_t round = 1; !dead(); ++round) {
      rank.transport.beat();
      if (all->has_room(2, 1)) all->notify(2, 0, round);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const int other = 1 - rank.rank();
    for (std::uint64_t round = 1; round < 2000; ++round) {
      all->notify(2, 0, 100000 + round);  // dropped
      all->put(2, 0, 8, 8);
      all->notify(other, 1, round);
    }
    EXPECT_TRUE(comes_true([&] { return all->poll(other, 1) == 1999; }));
    const auto pair = rank.create("pair", {0, 1}, 64, 1);
    pair->notify(other, 0, 1);
    EXPECT_TRUE(comes_true([&] { return pair->poll(other, 0) == 1; }));
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Liveness, CreatingASegmentWithADeadRankFails) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    if (rank.rank() == 2) {
      rank.fabric.kill(2);
      return;
    }
    try {
      rank.create("all", {0, 1, 2}, 64, 1);
      ADD_FAILURE() << "created";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
    }
  });
}

TEST(Gpi2Liveness, PlacesThatContradictEachOtherAreRefusedByAll) {
  EXPECT_THROW(run_on_fabric(
                   1, 3, [](FabricRank) { ADD_FAILURE() << "joined"; },
                   [](Environment& environment) {
                     if (environment.rank == 1) environment.job_id = "somebodyelse";
                   }),
               UsageError);
}

}  // namespace
}  // namespace tnt::comm
