#include "tnt/comm/transport/ended_ranks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

class EndedRanksTest : public ::testing::Test {
 protected:
  ~EndedRanksTest() override { std::remove(path_of(1).c_str()); }

  std::string path_of(int rank) const { return text("/dev/shm/tnt-", job_id, "-ended-", rank); }
  void note(const std::string& content) const { std::ofstream(path_of(1)) << content; }

  const std::string job_id = text("endedtest", ::getpid());
  EndedRanks ranks{job_id, 0};
};

TEST_F(EndedRanksTest, TheNoteSaysHow) {
  EXPECT_EQ(ranks.end_of(1), std::nullopt);
  note("exit code 3\nand more");
  EXPECT_EQ(ranks.end_of(1), "exit code 3");
  EXPECT_EQ(ranks.end_of(2), std::nullopt);
  note("");
  EXPECT_EQ(ranks.end_of(1), "");
}

TEST_F(EndedRanksTest, WithoutAJobNothingIsKnown) {
  EXPECT_EQ(EndedRanks("", 0).end_of(1), std::nullopt);
}

TEST_F(EndedRanksTest, OnlyAbsentRanksCount) {
  note("exit code 0");
  ranks.require_running([] { return std::vector<int>{2}; });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // until it looks again
  try {
    ranks.require_running([] { return std::vector<int>{1, 2}; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    EXPECT_EQ(std::string(error.what()).find("rank 0: rank 1 has ended (exit code 0) before it"),
              0U);
  }
}

TEST_F(EndedRanksTest, ARankThatJoinsMeanwhileCounts) {
  note("exit code 0");
  int looks = 0;
  ranks.require_running([&] { return looks++ == 0 ? std::vector<int>{1} : std::vector<int>{}; });
  EXPECT_EQ(looks, 2);
}

}  // namespace
}  // namespace tnt::comm
