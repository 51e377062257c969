// Several hosts: shared memory on each, a network between them.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "gpi2_ranks.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/hierarchical/join.hpp"

namespace tnt::comm {
namespace {

using tests::comes_true;
using tests::FabricRank;
using tests::run_on_fabric;

TEST(Cluster, NodesAreThoseOfTheEnvironment) {
  run_on_fabric(3, 2, [](FabricRank rank) {
    for (int other = 0; other < 6; ++other) EXPECT_EQ(rank.transport.node_of(other), other / 2);
    EXPECT_FALSE(rank.transport.capabilities().is_peer_memory_readable);
    EXPECT_FALSE(rank.transport.capabilities().is_doorbell_rung_by_peers);
  });
}

TEST(Cluster, RanksOfAHostReadEachOthersMemory) {
  run_on_fabric(2, 2, [](FabricRank rank) {
    const int first = rank.rank() / 2 * 2;
    const auto segment = rank.create(text("host-", first), {first, first + 1}, 64, 1);
    const int other = 1 - segment->rank();
    ASSERT_NE(segment->peer(other), nullptr);
    std::memcpy(segment->local(), &rank.environment.rank, sizeof(int));
    segment->notify(other, 0, 1);
    ASSERT_TRUE(comes_true([&] { return segment->poll(other, 0) == 1; }));
    int seen = -1;
    std::memcpy(&seen, segment->peer(other), sizeof seen);
    EXPECT_EQ(seen, first + other);
  });
}

TEST(Cluster, SegmentsBetweenHostsArePutOnly) {
  run_on_fabric(2, 2, [](FabricRank rank) {
    const auto segment = rank.create("all", {0, 1, 2, 3}, 1024, 1);
    EXPECT_EQ(segment->peer((rank.rank() + 1) % 4), nullptr);
    std::memcpy(segment->local(), &rank.environment.rank, sizeof(int));
    for (int other = 0; other < 4; ++other) {
      segment->put(other, 64 * (1 + static_cast<std::size_t>(rank.rank())), 0, sizeof(int));
      segment->notify(other, 0, 1);
    }
    for (int other = 0; other < 4; ++other) {
      ASSERT_TRUE(comes_true([&] { return segment->poll(other, 0) == 1; }));
      int seen = -1;
      std::memcpy(&seen, segment->local() + 64 * (1 + other), sizeof seen);
      EXPECT_EQ(seen, other);
    }
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Cluster, LeavingIsSeenOnAllHosts) {
  run_on_fabric(2, 2, [](FabricRank rank) {
    if (rank.rank() == 3) {
      rank.transport.leave(PeerState::failed, "no more paper");
      return;
    }
    const auto status = [&] { return rank.transport.status_of(3); };
    EXPECT_TRUE(comes_true([&] { return status().state == PeerState::failed; }));
    EXPECT_EQ(status().reason, "no more paper");
  });
}

TEST(JoinJob, SharedMemoryAloneCannotConnectHosts) {
  Environment environment = tests::place_on_nodes(0, 2, 1, "abcd1234");
  environment.transport = "shm";
  EXPECT_THROW(join_job(environment), UsageError);
}

TEST(JoinJob, OneHostMustHoldAllRanks) {
  Environment environment = tests::place_on_nodes(0, 2, 1, "abcd1234");
  environment.num_nodes = 1;
  EXPECT_THROW(join_job(environment), UsageError);
}

TEST(JoinJob, SeveralHostsNeedALibrary) {
  Environment environment = tests::place_on_nodes(0, 2, 1, "abcd1234");
  environment.transport = "auto";
  environment.gpi2_library = "/nowhere/libGPI2.so";
  try {
    join_job(environment);
    FAIL() << "joined";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::comm);
  }
}

}  // namespace
}  // namespace tnt::comm
