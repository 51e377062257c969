// The parts of the GPI-2 transport that are pure arithmetic and rules.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_process.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rma_core.hpp"

namespace tnt::comm {
namespace {

TEST(CounterWord, IsNeverZeroAndTellsTheCounter) {
  constexpr std::uint64_t kTurn = std::uint64_t{1} << 31;
  for (const std::uint64_t newest : {std::uint64_t{0}, std::uint64_t{7}, kTurn - 2, kTurn - 1,
                                     kTurn, 5 * kTurn - 1, (std::uint64_t{1} << 40) + 3}) {
    for (const std::uint64_t ahead : {0U, 1U, 2U, 1000000U, (1U << 30) - 1}) {
      const std::uint32_t word = word_of_counter(newest + ahead);
      EXPECT_NE(word, 0U);
      EXPECT_EQ(counter_of_word(word, newest), newest + ahead);
    }
  }
}

TEST(CounterWord, OvertakenWordsChangeNothing) {
  constexpr std::uint64_t kNewest = (std::uint64_t{1} << 31) + 5;
  for (const std::uint64_t back : {1U, 5U, 6U, 100U}) {
    EXPECT_EQ(counter_of_word(word_of_counter(kNewest - back), kNewest), kNewest);
  }
}

TEST(SegmentIds, TheSmallestFreeOneIsTaken) {
  SegmentIds ids;
  for (int id = 0; id < RmaDevice::kNumSegments; ++id) EXPECT_EQ(ids.take(), id);
  EXPECT_EQ(ids.take(), std::nullopt);
  ids.give_back(17);
  ids.give_back(3);
  EXPECT_EQ(ids.take(), 3);
  EXPECT_EQ(ids.take(), 17);
}

TEST(ControlMessage, LongTextsAreCutOff) {
  ControlMessage message(ControlKind::leaving, std::string(5000, 'x'));
  EXPECT_EQ(message.text(), std::string(message.letters.size(), 'x'));
  message.text_bytes = 1U << 30;  // as if the memory had been overwritten
  EXPECT_EQ(message.text().size(), message.letters.size());
}

// Nodes with these numbers of ranks.
std::vector<RankLocation> locations(const std::vector<int>& ranks_of_nodes) {
  std::vector<RankLocation> result;
  for (std::size_t node = 0; node < ranks_of_nodes.size(); ++node) {
    for (int local = 0; local < ranks_of_nodes[node]; ++local) {
      RankLocation location;
      location.local_rank = local;
      location.local_size = ranks_of_nodes[node];
      location.node_rank = static_cast<int>(node);
      location.num_nodes = static_cast<int>(ranks_of_nodes.size());
      location.build = "tnt-comm 1.2.0, little-endian, GPI-2 1.6.0";
      location.job_id = "abcd1234";
      location.host = "alpha";
      location.pid = 100 + local;
      result.push_back(location);
    }
  }
  for (RankLocation& location : result) location.size = static_cast<int>(result.size());
  return result;
}

TEST(RankLocation, TravelsInAMessage) {
  const RankLocation location = locations({1, 3})[2];
  const RankLocation other = location_in(hello_of(location));
  EXPECT_EQ(other.size, location.size);
  EXPECT_EQ(other.local_rank, location.local_rank);
  EXPECT_EQ(other.local_size, location.local_size);
  EXPECT_EQ(other.node_rank, location.node_rank);
  EXPECT_EQ(other.num_nodes, location.num_nodes);
  EXPECT_EQ(other.build, location.build);
  EXPECT_EQ(other.job_id, location.job_id);
  EXPECT_EQ(other.host, location.host);
  EXPECT_EQ(other.pid, location.pid);
}

TEST(RankLocation, NodesMayHaveDifferentNumbersOfRanks) {
  EXPECT_EQ(nodes_of(locations({1})), (std::vector<int>{0}));
  EXPECT_EQ(nodes_of(locations({2, 1, 3})), (std::vector<int>{0, 0, 1, 2, 2, 2}));
}

TEST(RankLocation, ContradictionsNameTheRankAndTheVariable) {
  using Change = std::function<void(std::vector<RankLocation>&)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& p) { p[2].build = "tnt-comm 1.2.0, little-endian, GPI-2 1.5.1"; },
       "rank 2 (host alpha) has tnt-comm 1.2.0, little-endian, GPI-2 1.5.1, and rank 0 (host alpha)"
       " has tnt-comm 1.2.0, little-endian, GPI-2 1.6.0. Install the same"},
      {[](auto& p) { p[2].job_id = "other123"; }, "rank 2 (host alpha, pid 100) has TNT_JOB_ID"},
      {[](auto& p) { p[1].size = 7; }, "rank 1 (host alpha, pid 101) has TNT_SIZE=7"},
      {[](auto& p) { p[3].num_nodes = 3; }, "has TNT_NUM_NODES=3"},
      {[](auto& p) { p[1].node_rank = 1; }, "rank 1 (host alpha, pid 101) has TNT_LOCAL_RANK=1"},
      {[](auto& p) { p[3].node_rank = 0; }, "rank 3 (host alpha, pid 101) has TNT_NODE_RANK=0"},
      {[](auto& p) { p[0].node_rank = 1; }, "rank 0 (host alpha, pid 100) has TNT_NODE_RANK=1"},
      {[](auto& p) { p[3].local_rank = 0; }, "it is number 1 of node 1"},
      {[](auto& p) { p[2].local_size = 1; }, "its node has 2 ranks"},
      {[](auto& p) {
         for (auto& location : p) location.num_nodes = 5;
       },
       "has TNT_NUM_NODES=5, but the ranks are on 2"},
  };
  for (const auto& [change, expected] : cases) {
    std::vector<RankLocation> changed = locations({2, 2});
    change(changed);
    try {
      nodes_of(changed);
      ADD_FAILURE() << "accepted; expected: " << expected;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(GaspiEnvironment, MustSayWhatTheLauncherSays) {
  Environment right;
  right.rank = 1;
  right.size = 2;
  right.gaspi_rank = 1;
  right.gaspi_num_ranks = 2;
  right.gaspi_socket = 1;
  right.gaspi_machine_file = "/some/file";
  EXPECT_NO_THROW(require_gaspi_environment(right));
  for (const auto& change : std::vector<std::function<void(Environment&)>>{
           [](Environment& e) { e.gaspi_rank = 0; },
           [](Environment& e) { e.gaspi_rank = std::nullopt; },
           [](Environment& e) { e.gaspi_num_ranks = 3; },
           [](Environment& e) { e.gaspi_socket = std::nullopt; },
           [](Environment& e) { e.gaspi_machine_file = ""; },
       }) {
    Environment wrong = right;
    change(wrong);
    EXPECT_THROW(require_gaspi_environment(wrong), UsageError);
  }
}

// A library whose settings are these bytes.
std::array<std::byte, kMostConfigBytes> config_bytes;

void set_config(std::size_t offset, std::uint32_t value) {
  std::memcpy(config_bytes.data() + offset, &value, sizeof value);
}

GaspiLibrary library_with(const GaspiLayout& layout) {
  config_bytes = {};
  set_config(layout.sn_port, 12121);
  set_config(layout.queue_size_max, 1024);
  set_config(layout.queue_num, 8);
  set_config(layout.segment_max, 255);
  set_config(layout.notification_num, 65536);
  GaspiLibrary library;
  library.layout = &layout;
  library.functions.config_get = [](void* target) {
    std::memcpy(target, config_bytes.data(), config_bytes.size());
    return 0;
  };
  return library;
}

TEST(GaspiSettings, AreReadByTheLayoutOfTheVersion) {
  for (const GaspiLayout& layout : kGaspiLayouts) {
    const GaspiLibrary library = library_with(layout);
    const GaspiSettings settings = read_gaspi_settings(library);
    EXPECT_EQ(settings.num_queues, 8);
    EXPECT_EQ(settings.queue_capacity, 1024U);
    EXPECT_EQ(settings.num_segments, 255);
    EXPECT_EQ(settings.num_notifications, 65536U);

    set_config(layout.queue_num, 1U << 20);  // as if the layout were another one
    EXPECT_THROW(read_gaspi_settings(library), Error);
  }
}

GaspiLibrary library_of_one_rank() {
  GaspiLibrary library = library_with(kGaspiLayouts.back());
  set_config(library.layout->sn_port, 23456);
  library.functions.proc_init = [](GaspiFunctions::Time) { return 0; };
  return library;
}

std::string error_of_allocation(RmaDevice& device) {
  try {
    device.allocate(1, 4096);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// In a child, since limits are those of the whole process, which starts GPI-2 once.
bool names_limits_of_memory() {
  const rlimit locked{65536, 65536};
  if (::setrlimit(RLIMIT_MEMLOCK, &locked) != 0) return false;
  static int status = 0;
  GaspiLibrary library = library_of_one_rank();
  library.functions.segment_alloc = [](std::uint8_t, std::uint64_t, int) { return status; };
  GaspiProcess process(std::move(library), Environment(), {}, Deadline(20));
  status = 26;
  const std::string of_locked = error_of_allocation(process);
  status = 28;
  const std::string of_all = error_of_allocation(process);
  return of_locked ==
             "rank 0: gaspi_segment_alloc returned 26 for 4096 bytes (the network device does not"
             " register them). The limit of locked memory (ulimit -l) is 65536: raise it." &&
         of_all.starts_with(
             "rank 0: gaspi_segment_alloc returned 28 for 4096 bytes (out of"
             " memory). ") &&
         of_all.find("limit of address space (ulimit -v)") != std::string::npos;
}

TEST(GaspiProcess, LimitsOfMemoryAreNamedWhereThereIsNone) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(names_limits_of_memory() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(GaspiLibrary, AMissingOneIsToldWithTheRemedy) {
  try {
    open_gaspi_library("/nowhere/libGPI2.so");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::comm);
    const std::string what = error.what();
    EXPECT_NE(what.find("TNT_GPI2_LIBRARY='/nowhere/libGPI2.so' cannot be loaded"),
              std::string::npos);
    EXPECT_NE(what.find("as its README says"), std::string::npos);
  }
}

}  // namespace
}  // namespace tnt::comm
