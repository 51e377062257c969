// Segments of the GPI-2 transport, over a network between threads.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "gpi2_ranks.hpp"

namespace tnt::comm {
namespace {

using tests::comes_true;
using tests::FabricRank;
using tests::FakeFabric;
using tests::run_on_fabric;

std::vector<int> ranks_up_to(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <typename Call>
std::string expect_error(ErrorKind kind, Call&& call) {
  const Error error = tests::error_of(call);
  EXPECT_EQ(error.kind(), kind) << error.what();
  return error.what();
}

std::uint64_t& word(Segment& segment, std::size_t index) {
  return reinterpret_cast<std::uint64_t*>(segment.local())[index];
}

TEST(Gpi2Segment, ANotificationOfOneSenderTakesOneCounter) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    SegmentRequest request{"one", ranks_up_to(3), 64, 500};
    request.senders = Senders::one;
    const auto segment = rank.transport.create_segment(request, Deadline(20));
    const int next = (rank.rank() + 1) % 3;
    const int previous = (rank.rank() + 2) % 3;
    segment->notify(next, 499, 7);
    segment->notify(previous, 3, 8);
    EXPECT_TRUE(comes_true([&] { return segment->poll(previous, 499) == 7; }));
    EXPECT_TRUE(comes_true([&] { return segment->poll(next, 3) == 8; }));
  });
}

TEST(Gpi2Segment, WhoSeesTheNotificationSeesTheData) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    constexpr std::uint64_t kRounds = 200;
    const auto segment = rank.create("ring", ranks_up_to(3), 1024, 4);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->local()) % 64, 0U);
    EXPECT_EQ(segment->peer((rank.rank() + 1) % 3), nullptr);
    const int next = (rank.rank() + 1) % 3;
    const int previous = (rank.rank() + 2) % 3;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      word(*segment, 0) = 1000 * round + static_cast<std::uint64_t>(rank.rank());
      segment->put(next, 8, 0, 8);
      segment->notify(next, 3, round);
      ASSERT_TRUE(comes_true([&] { return segment->poll(previous, 3) == round; }));
      EXPECT_EQ(word(*segment, 1), 1000 * round + static_cast<std::uint64_t>(previous));
      segment->notify(previous, 1, round);
      ASSERT_TRUE(comes_true([&] { return segment->poll(next, 1) == round; }));
    }
    EXPECT_EQ(segment->poll(previous, 2), 0U);
    EXPECT_EQ(segment->poll(next, 3), 0U);
  });
}

TEST(Gpi2Segment, ARankCanSendToItself) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    const auto segment = rank.create("self", {0, 1}, 64, 1);
    word(*segment, 0) = 7;
    segment->put(rank.rank(), 8, 0, 8);
    segment->notify(rank.rank(), 0, 5);
    EXPECT_EQ(word(*segment, 1), 7U);
    EXPECT_EQ(segment->poll(rank.rank(), 0), 5U);
  });
}

TEST(Gpi2Segment, AFullQueueIsNeverPostedTo) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    const auto segment = rank.create("full", {0, 1}, 64, 1);
    if (rank.rank() == 0) {
      rank.fabric.stop(1);
      std::size_t count = 0;
      while (segment->has_room(1, 1)) segment->notify(1, 0, ++count);
      EXPECT_GT(count, 100U);
      EXPECT_LT(count, FakeFabric::kQueueCapacity);
      rank.fabric.resume(1);
      EXPECT_TRUE(comes_true([&] { return segment->has_room(1, 100); }));
      segment->notify(1, 0, 1000000);
    } else {
      EXPECT_TRUE(comes_true([&] { return segment->poll(0, 0) == 1000000; }));
    }
    rank.transport.leave(PeerState::finished, "");
  });
}

TEST(Gpi2Segment, WaitingForRoomEndsAtTheDeadline) {
  run_on_fabric(
      1, 2,
      [](FabricRank rank) {
        const auto segment = rank.create("stuck", {0, 1}, 64, 1);
        if (rank.rank() == 1) {
          comes_true([&] { return segment->poll(0, 0) == 5000; });
          return;
        }
        rank.fabric.stop(1);
        const std::string what = expect_error(ErrorKind::timeout, [&] {
          for (std::uint64_t i = 1; i < 1000; ++i) segment->notify(1, 0, i);
        });
        EXPECT_NE(what.find("nothing could be sent to rank 1"), std::string::npos) << what;
        rank.fabric.resume(1);
        segment->notify(1, 0, 5000);
      },
      [](Environment& environment) { environment.timeout_s = 1; });
}

TEST(Gpi2Segment, IdsAreUsedAgainWhenAllHaveReleasedThem) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    for (int i = 0; i < 600; ++i) {
      const auto segment = rank.create(text("key-", i), {0, 1}, 64, 1);
      segment->notify(1 - rank.rank(), 0, 1);
    }
  });
}

// Two are freed at the same time, and the second one cannot be. The first one's id is then that of
// another segment, which must outlive the other rank.
TEST(Gpi2Segment, ThatCannotBeReleasedLeavesOthersAlone) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    constexpr SegmentId kFirst = 1;  // behind that of the control messages
    auto first = rank.create("first", {0, 1}, 64, 1);
    auto second = rank.create("second", {0, 1}, 64, 1);
    rank.fabric.fail_release(0, kFirst + 1);
    first.reset();
    second.reset();
    ASSERT_TRUE(comes_true(
        [&] { return rank.fabric.has_failed_release(0) && !rank.fabric.has_segment(0, kFirst); }));
    const auto third = rank.create("third", {0, 1}, 64, 1);
    ASSERT_TRUE(rank.fabric.has_segment(0, kFirst));
    if (rank.rank() == 1) return rank.transport.leave(PeerState::finished, "");
    ASSERT_TRUE(
        comes_true([&] { return rank.transport.status_of(1).state == PeerState::finished; }));
    for (int look = 0; look < 20; ++look) {  // of the thread that frees segments, and more
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_TRUE(rank.fabric.has_segment(0, kFirst));
    }
  });
}

TEST(Gpi2Segment, MembersMayCreateSeveralAtOnceAndInGroups) {
  run_on_fabric(1, 4, [](FabricRank rank) {
    const std::vector<int> pair = rank.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3};
    std::unique_ptr<Segment> all;
    std::unique_ptr<Segment> half;
    std::thread other([&] { all = rank.create("all", ranks_up_to(4), 64, 1); });
    half = rank.create(text("half-", pair.front()), pair, 64, 1);
    other.join();
    EXPECT_EQ(all->rank(), rank.rank());
    EXPECT_EQ(half->rank(), rank.rank() % 2);
    EXPECT_EQ(half->size(), 2);
  });
}

TEST(Gpi2Segment, TooManySegmentsAreRefused) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    std::vector<std::unique_ptr<Segment>> segments;
    const std::string what = expect_error(ErrorKind::comm, [&] {
      for (int i = 0; i < 255; ++i) segments.push_back(rank.create(text("k", i), {0, 1}, 8, 1));
    });
    EXPECT_EQ(segments.size(), 254U);  // one is the control segment
    EXPECT_NE(what.find("fabric has 255"), std::string::npos) << what;
  });
}

TEST(Gpi2Segment, TooManyNotificationsAreRefused) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    EXPECT_NE(rank.create("right", {0, 1}, 8, 256), nullptr);
    const std::string what =
        expect_error(ErrorKind::comm, [&] { rank.create("wrong", {0, 1}, 8, 257); });
    EXPECT_NE(what.find("514 notifications (257 for each of 2 ranks)"), std::string::npos) << what;
  });
}

TEST(Gpi2Segment, DifferentRequestsAreAMismatch) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    const std::size_t num_bytes = rank.rank() == 0 ? 64 : 128;
    const std::string what =
        expect_error(ErrorKind::mismatch, [&] { rank.create("object", {0, 1}, num_bytes, 1); });
    EXPECT_NE(what.find("do not create the same object"), std::string::npos) << what;
  });
}

TEST(Gpi2Segment, AMemberThatDoesNotCreateItIsNamed) {
  run_on_fabric(1, 3, [](FabricRank rank) {
    if (rank.rank() == 2) {
      EXPECT_TRUE(
          comes_true([&] { return rank.transport.status_of(1).state == PeerState::finished; }));
      return;
    }
    const std::string what =
        expect_error(rank.rank() == 0 ? ErrorKind::timeout : ErrorKind::peer_lost,
                     [&] { rank.create("object", {0, 1, 2}, 64, 1, rank.rank() == 0 ? 0.3 : 20); });
    const char* expected =
        rank.rank() == 0 ? "waited 0.3 s for rank 2 to create object" : "waits for rank 0 (host ";
    EXPECT_NE(what.find(expected), std::string::npos) << what;
    if (rank.rank() == 0) {
      rank.transport.leave(PeerState::failed, what);
    } else {
      rank.transport.leave(PeerState::finished, "");
    }
  });
}

TEST(Gpi2Segment, ARankThatHasFailedToCreateOneMayCreateOthers) {
  run_on_fabric(1, 2, [](FabricRank rank) {
    if (rank.rank() == 0) {
      expect_error(ErrorKind::timeout, [&] { rank.create("object", {0, 1}, 64, 1, 0.1); });
    }
    const auto other = rank.create("other", {0, 1}, 64, 1);
    EXPECT_EQ(rank.transport.status_of(1 - rank.rank()).state, PeerState::running);
    other->notify(1 - rank.rank(), 0, 1);  // nobody leaves before both have looked
    EXPECT_TRUE(comes_true([&] { return other->poll(1 - rank.rank(), 0) == 1; }));
    rank.transport.leave(PeerState::finished, "");
  });
}

}  // namespace
}  // namespace tnt::comm
