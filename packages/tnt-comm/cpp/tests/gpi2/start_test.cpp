// What is known about the start of GPI-2 before GPI-2 is asked.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_process.hpp"

namespace tnt::comm {
namespace {

std::string refusal(const std::string& content, int size) {
  try {
    parse_machine_file(content, size);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(MachineFile, NumbersTheRanksOfEachHost) {
  const auto addresses = parse_machine_file("a\nb\n\na\n10.0.0.1\nb\na\n", 6);
  std::vector<std::string> hosts;
  std::vector<int> local_ranks;
  for (const RankAddress& address : addresses) {
    hosts.push_back(address.host);
    local_ranks.push_back(address.local_rank);
  }
  EXPECT_EQ(hosts, (std::vector<std::string>{"a", "b", "a", "10.0.0.1", "b", "a"}));
  EXPECT_EQ(local_ranks, (std::vector<int>{0, 0, 1, 0, 1, 2}));
}

TEST(MachineFile, HasAsManyHostsAsRanks) {
  EXPECT_TRUE(says(refusal("a\na\na\n", 2), "it has 3 host(s), but the job 2 rank(s)"));
  EXPECT_TRUE(says(refusal("a\n", 2), "it has 1 host(s), but the job 2 rank(s)"));
  EXPECT_TRUE(says(refusal("", 1), "it has 0 host(s), but the job 1 rank(s)"));
}

TEST(MachineFile, HasNamesThatGpi2ReadsWhole) {
  const std::string longest(62, 'x');
  EXPECT_EQ(refusal(longest + "\n", 1), "accepted");
  EXPECT_TRUE(says(refusal("a\n" + longest + "x\n", 2), "line 2 has 63 characters"));
  for (const char* host : {"a ", " a", "a b", "a\r", "a\tb", "\x01", "h\xc3\xb6st"}) {
    EXPECT_TRUE(says(refusal(std::string(host) + "\n", 1), "line 1 has blanks")) << host;
  }
  EXPECT_TRUE(says(refusal(std::string("a\0b\n", 4), 1), "line 1 has blanks"));
}

TEST(MachineFile, EndsItsLastLine) {
  EXPECT_TRUE(says(refusal("a\nb", 2), "add a newline"));
}

TEST(MachineFile, HasAtMostAsManyRanksOfAHostAsGpi2) {
  std::string content;
  for (int rank = 0; rank < 256; ++rank) content += "a\n";
  EXPECT_EQ(refusal(content, 256), "accepted");
  EXPECT_TRUE(says(refusal(content + "a\n", 257), "at most 256 ranks on a host"));
}

int some_free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ::bind(probe, reinterpret_cast<const sockaddr*>(&address), length);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(probe);
  return ntohs(address.sin_port);
}

TEST(Presence, IsSeenAsLongAsItLasts) {
  const int port = some_free_port();
  const std::vector<RankAddress> addresses = {{"127.0.0.1", 0}, {"localhost", 0}};
  {
    const Presence presence(port);
    EXPECT_EQ(absent_ranks(addresses, port), std::vector<int>{});
  }
  EXPECT_EQ(absent_ranks(addresses, port), (std::vector<int>{0, 1}));
}

TEST(Presence, OfAHostThatNobodyKnowsIsNone) {
  EXPECT_EQ(absent_ranks({{"no.such.host.invalid", 0}}, some_free_port()), std::vector<int>{0});
}

TEST(Presence, IsLookedForAmongMoreRanksThanAreAskedAtOnce) {
  const int port = some_free_port();
  const Presence presence(port);
  std::vector<RankAddress> addresses(150, {"127.0.0.1", 0});
  EXPECT_EQ(absent_ranks(addresses, port), std::vector<int>{});
  addresses[140].host = "no.such.host.invalid";
  EXPECT_EQ(absent_ranks(addresses, port), std::vector<int>{140});
}

TEST(Presence, OnAPortThatIsTakenIsAnError) {
  const int port = some_free_port();
  const Presence presence(port);
  try {
    const Presence second(port);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::comm);
    EXPECT_TRUE(says(error.what(), "cannot be used (Address already in use)"));
  }
}

TEST(Absence, NamesTheFirstTen) {
  const std::vector<RankAddress> addresses(20, {"b", 0});
  EXPECT_EQ(names_of({3}, addresses), "rank 3 (host b)");
  std::vector<int> many;
  for (int rank = 0; rank < 12; ++rank) many.push_back(rank);
  EXPECT_TRUE(says(names_of(many, addresses), "9 (host b) and 2 more"));
}

TEST(Absence, IsToldByTheFirstRankWithoutReferenceToItself) {
  Environment environment;
  environment.size = 2;
  for (const int rank : {0, 1}) {
    environment.rank = rank;
    const StartWatch watch(environment, {}, some_free_port(), Deadline(1));
    EXPECT_TRUE(says(watch.absence(), "Check that all 2 ranks were started"));
    EXPECT_EQ(says(watch.absence(), "rank 0 names those that were not"), rank == 1);
  }
}

// Settings that could be those of GPI-2.
int tell_config(void* config) {
  const GaspiLayout& layout = kGaspiLayouts.back();
  const auto set = [&](std::size_t offset, int value) {
    std::memcpy(static_cast<std::byte*>(config) + offset, &value, sizeof value);
  };
  static const int port = std::min(some_free_port(), 60000);
  set(layout.sn_port, port);
  set(layout.queue_num, 8);
  set(layout.queue_size_max, 1024);
  set(layout.segment_max, 32);
  set(layout.notification_num, 65536);
  return 0;
}

TEST(GaspiProcess, NamesTheRankToWhichNoSegmentCanBeIntroduced) {
  GaspiLibrary library;
  library.layout = &kGaspiLayouts.back();
  library.functions.config_get = tell_config;
  library.functions.proc_init = [](std::uint64_t) { return 0; };
  library.functions.segment_register = [](std::uint8_t, std::uint16_t, std::uint64_t) {
    return -1;
  };
  Environment environment;
  environment.size = 2;
  GaspiProcess process(library, environment, {}, Deadline(10));
  for (const Error& error : {tests::error_of([&] { process.introduce(0, 1, Deadline(1)); }),
                             tests::error_of([&] { process.introduce_to_all(0); })}) {
    EXPECT_STREQ(error.what(),
                 "rank 0: gaspi_segment_register for rank 1 returned -1 (error). Rank 1 may have"
                 " ended: look at its output first.");
  }
}

TEST(Posting, IsTriedAgainWhileTheQueueIsLocked) {
  int num_calls = 0;
  EXPECT_EQ(post_when_unlocked(Deadline(60), [&] { return ++num_calls < 5 ? 1 : 0; }), 0);
  EXPECT_EQ(num_calls, 5);
}

TEST(Posting, EndsWithAnErrorOfItsOwnOrAtTheDeadline) {
  int num_calls = 0;
  EXPECT_EQ(post_when_unlocked(Deadline(60), [&] { return ++num_calls < 2 ? 1 : 23; }), 23);
  EXPECT_EQ(post_when_unlocked(Deadline(0.01), [] { return 1; }), 1);
}

TEST(DetachableCall, ThrowsWhatTheCallThrew) {
  DetachableCall call("test", [] { throw UsageError("no"); });
  while (!call.has_returned()) std::this_thread::yield();
  EXPECT_THROW(call.get(), UsageError);
}

TEST(DetachableCall, IsLeftBehindIfItDoesNotReturn) {
  const auto may_end = std::make_shared<std::atomic<bool>>(false);
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  {
    const DetachableCall call("test", [may_end, has_ended] {
      while (!may_end->load()) std::this_thread::yield();
      has_ended->store(true);
    });
    EXPECT_FALSE(call.has_returned());
  }
  EXPECT_FALSE(has_ended->load());
  may_end->store(true);
  while (!has_ended->load()) std::this_thread::yield();
}

}  // namespace
}  // namespace tnt::comm
