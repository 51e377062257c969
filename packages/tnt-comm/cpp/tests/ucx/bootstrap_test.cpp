#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "captured_stderr.hpp"
#include "errors.hpp"
#include "free_port.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"

namespace tnt::comm {
namespace {

using tests::CapturedStderr;
using tests::error_of;
using tests::FreePort;

constexpr double kBootstrapTimeoutS = 60;

BootstrapPlace place_of(int rank, int size, int port) {
  return {.rank = rank,
          .size = size,
          .rendezvous = {"127.0.0.1", port},
          .interface = {},
          .job_id = "bootstrap1",
          .secret = "nobody else knows this",
          .stall_report_s = 30};
}

using Body = std::function<void(Bootstrap&)>;

// One rank per thread; the errors by rank.
std::vector<std::optional<Error>> run(
    int size, const Body& body,
    const std::function<void(BootstrapPlace&)>& adjust = [](BootstrapPlace&) {},
    double timeout_s = kBootstrapTimeoutS) {
  const FreePort port;
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        BootstrapPlace place = place_of(rank, size, port.number);
        adjust(place);
        const auto bootstrap = start_bootstrap(place, Deadline(timeout_s));
        body(*bootstrap);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = Error::current();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

class Bootstraps : public ::testing::TestWithParam<int> {};

TEST_P(Bootstraps, GiveTheRecordsOfAllToAllAgainAndAgain) {
  const int size = GetParam();
  std::atomic<int> next{0};
  const auto errors = run(size, [&](Bootstrap& bootstrap) {
    const std::string name = text("rank ", next.fetch_add(1), std::string(3, '\0'));
    for (int round = 0; round < 3; ++round) {
      const auto records = bootstrap.exchange(name + std::to_string(round));
      ASSERT_EQ(records.size(), static_cast<std::size_t>(size));
      EXPECT_NE(std::find(records.begin(), records.end(), name + std::to_string(round)),
                records.end());
    }
    bootstrap.barrier();
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bootstraps, ::testing::Values(1, 2, 3, 8));

// Records as long as those of UCX over two networks.
TEST(Bootstrap, ConnectsAThousandRanks) {
  constexpr int kSize = 1024;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4 * kSize);
  if (files.rlim_cur < 3 * kSize) GTEST_SKIP() << "not as many open files are permitted here";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  std::atomic<std::size_t> num_records{0};
  const auto errors = run(kSize, [&](Bootstrap& bootstrap) {
    num_records += bootstrap.exchange(std::string(200, 'a')).size();
    bootstrap.barrier();
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(num_records, std::size_t{kSize} * kSize);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Bootstrap, RecordsAreInTheOrderOfRanks) {
  const FreePort port;
  std::vector<std::thread> threads;
  for (int rank = 2; rank >= 0; --rank) {
    threads.emplace_back([&, rank] {
      const auto bootstrap =
          start_bootstrap(place_of(rank, 3, port.number), Deadline(kBootstrapTimeoutS));
      EXPECT_EQ(bootstrap->exchange(text("of ", rank)),
                (std::vector<std::string>{"of 0", "of 1", "of 2"}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Bootstrap, NamesTheInterfaceThroughWhichOthersAreReached) {
  const auto errors = run(2, [](Bootstrap& bootstrap) {
    EXPECT_EQ(bootstrap.interface().name, "lo");
    EXPECT_EQ(bootstrap.interface().address.host(), "127.0.0.1");
    bootstrap.barrier();
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(Bootstrap, OfARankWithAnotherSecretIsRefusedAndLogged) {
  const CapturedStderr messages;
  const auto errors = run(
      2, [](Bootstrap& bootstrap) { bootstrap.barrier(); },
      [](BootstrapPlace& place) {
        if (place.rank == 1) place.secret = "a guess of an unknown process";
      },
      2);
  ASSERT_TRUE(errors[0] && errors[1]);
  EXPECT_NE(std::string(errors[1]->what()).find("TNT_JOB_SECRET"), std::string::npos);
  EXPECT_EQ(errors[0]->kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(errors[0]->what()).find("rank 1"), std::string::npos) << errors[0]->what();
  EXPECT_NE(messages.text().find("did not prove that it knows this job's secret"),
            std::string::npos);
}

TEST(Bootstrap, OfAnotherJobWithTheSameSecretIsRefused) {
  const auto errors = run(
      2, [](Bootstrap& bootstrap) { bootstrap.barrier(); },
      [](BootstrapPlace& place) {
        if (place.rank == 1) place.job_id = "bootstrap2";
      },
      2);
  ASSERT_TRUE(errors[1]);
  EXPECT_NE(std::string(errors[1]->what()).find("was refused"), std::string::npos);
}

TEST(Bootstrap, ThatIsIncompleteAtTheDeadlineNamesTheMissingOnAllRanks) {
  const auto errors = run(
      3, [](Bootstrap& bootstrap) { bootstrap.barrier(); },
      [](BootstrapPlace& place) {
        if (place.rank == 2) throw Error(ErrorKind::comm, "rank 2 does not come");
      },
      1);
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(errors[static_cast<std::size_t>(rank)]);
    const std::string what = errors[static_cast<std::size_t>(rank)]->what();
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)]->kind(), ErrorKind::timeout) << what;
    EXPECT_NE(what.find("for rank 2,"), std::string::npos) << what;
  }
}

TEST(Bootstrap, OfARankThatEndsWhileOthersWaitEndsAll) {
  std::atomic<int> num_started{0};
  const auto errors = run(3, [&](Bootstrap& bootstrap) {
    bootstrap.barrier();
    if (num_started.fetch_add(1) == 1) throw Error(ErrorKind::comm, "this one ends");
    bootstrap.barrier();
  });
  int num_told = 0;
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    num_told += error->kind() == ErrorKind::peer_lost ? 1 : 0;
  }
  EXPECT_EQ(num_told, 2);
}

TEST(Bootstrap, OfTwoProcessesWithOneRankIsRefusedToTheSecond) {
  const FreePort port;
  std::thread first([&] {
    const auto bootstrap = start_bootstrap(place_of(0, 2, port.number), Deadline(2));
    error_of([&] {
      bootstrap->barrier();
      bootstrap->barrier();
    });
  });
  const auto right = start_bootstrap(place_of(1, 2, port.number), Deadline(kBootstrapTimeoutS));
  right->barrier();
  const Error error = error_of([&] {
    start_bootstrap(place_of(1, 2, port.number), Deadline(kBootstrapTimeoutS))->barrier();
  });
  EXPECT_NE(std::string(error.what()).find("has joined twice"), std::string::npos) << error.what();
  first.join();
}

// Somebody who connects and says nothing, or rubbish, or who has connected often.
TEST(Bootstrap, IsNotHeldUpByStrangers) {
  const FreePort port;
  std::thread hub([&] {
    const auto bootstrap =
        start_bootstrap(place_of(0, 2, port.number), Deadline(kBootstrapTimeoutS));
    EXPECT_EQ(bootstrap->exchange("0"), (std::vector<std::string>{"0", "1"}));
  });
  const SocketAddress address = addresses_of("127.0.0.1")[0].with_port(port.number);
  std::vector<int> intruders;
  while (intruders.size() < 300) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(descriptor, address.get(), address.num_bytes()) != 0) {
      ::close(descriptor);
      continue;
    }
    if (intruders.size() % 2 == 0) {
      const std::string rubbish(500, 'x');
      ::send(descriptor, rubbish.data(), rubbish.size(), MSG_NOSIGNAL);
    }
    intruders.push_back(descriptor);
  }
  const auto bootstrap = start_bootstrap(place_of(1, 2, port.number), Deadline(kBootstrapTimeoutS));
  EXPECT_EQ(bootstrap->exchange("1"), (std::vector<std::string>{"0", "1"}));
  hub.join();
  for (const int intruder : intruders) ::close(intruder);
}

// In a process of its own, which has few descriptors.
pid_t start_rank_zero_with_few_files(int port, int num_files) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = open_descriptors().size() + static_cast<rlim_t>(num_files);
  ::setrlimit(RLIMIT_NOFILE, &files);
  const auto bootstrap = start_bootstrap(place_of(0, 2, port), Deadline(kBootstrapTimeoutS));
  ::_exit(bootstrap->exchange("0").size() == 2 ? 0 : 1);
}

TEST(Bootstrap, IsNotHeldUpByStrangersWhoTakeAllDescriptors) {
  constexpr double kShorterThanTheyMayStayS = 8;
  const FreePort port;
  const CapturedStderr captured;
  const pid_t hub = start_rank_zero_with_few_files(port.number, 20);
  const SocketAddress address = addresses_of("127.0.0.1")[0].with_port(port.number);
  std::vector<int> intruders;
  while (intruders.size() < 100) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(descriptor, address.get(), address.num_bytes()) == 0) {
      intruders.push_back(descriptor);
    } else {
      ::close(descriptor);
    }
  }
  const auto bootstrap =
      start_bootstrap(place_of(1, 2, port.number), Deadline(kShorterThanTheyMayStayS));
  EXPECT_EQ(bootstrap->exchange("1"), (std::vector<std::string>{"0", "1"}));
  int status = -1;
  EXPECT_EQ(::waitpid(hub, &status, 0), hub);
  EXPECT_EQ(status, 0);
  for (const int intruder : intruders) ::close(intruder);
  EXPECT_NE(captured.text().find("has no file descriptors left"), std::string::npos)
      << captured.text();
}

// More than is read at once, without a pause.
TEST(Bootstrap, IsNotHeldUpByAStrangerWhoFloodsIt) {
  const FreePort port;
  std::atomic<bool> is_over{false};
  std::thread flood([&] {
    const SocketAddress address = addresses_of("127.0.0.1")[0].with_port(port.number);
    const std::string rubbish(1 << 20, 'x');
    while (!is_over.load()) {
      const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(descriptor, address.get(), address.num_bytes()) == 0) {
        while (::send(descriptor, rubbish.data(), rubbish.size(), MSG_NOSIGNAL) > 0) {
        }
      }
      ::close(descriptor);
    }
  });
  std::thread hub([&] {
    const auto bootstrap =
        start_bootstrap(place_of(0, 2, port.number), Deadline(kBootstrapTimeoutS));
    EXPECT_EQ(bootstrap->exchange("0"), (std::vector<std::string>{"0", "1"}));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the flood goes first
  const auto bootstrap = start_bootstrap(place_of(1, 2, port.number), Deadline(kBootstrapTimeoutS));
  EXPECT_EQ(bootstrap->exchange("1"), (std::vector<std::string>{"0", "1"}));
  hub.join();
  is_over.store(true);
  flood.join();
}

TEST(Bootstrap, ListensAtTheRendezvousAlsoIfTheDataGoAnotherWay) {
  if (!interface_with(addresses_of("::1")[0])) GTEST_SKIP() << "no IPv6 here";
  std::vector<std::thread> ranks;
  const FreePort port;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      BootstrapPlace place = place_of(rank, 2, port.number);
      if (rank == 0) place.interface = "::1/128";
      const auto bootstrap = start_bootstrap(place, Deadline(kBootstrapTimeoutS));
      bootstrap->barrier();
      EXPECT_EQ(bootstrap->interface().address.host(), rank == 0 ? "::1" : "127.0.0.1");
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Bootstrap, OfAJobOnSeveralHostsDoesNotListenWhereOnlyItsOwnHostReachesIt) {
  BootstrapPlace place = place_of(0, 2, 20000);
  place.has_other_hosts = true;
  const Error error = error_of([&] { start_bootstrap(place, Deadline(1)); });
  EXPECT_NE(std::string(error.what()).find("which other hosts cannot reach"), std::string::npos);
}

TEST(Bootstrap, OfIpv6IsShownAsItIsWritten) {
  const FreePort port;
  BootstrapPlace place = place_of(1, 2, port.number);
  place.rendezvous.host = "fe80::1";
  const Error error = error_of([&] { start_bootstrap(place, Deadline(0.1)); });
  const std::string what = error.what();
  EXPECT_NE(what.find(text("TNT_RENDEZVOUS='[fe80::1]:", port.number, "'")), std::string::npos)
      << what;
  if (what.find("unreachable") != std::string::npos) GTEST_SKIP() << "no IPv6 here";
  EXPECT_NE(what.find("write which one, as in [fe80::1%eth0]:port"), std::string::npos) << what;
}

TEST(Bootstrap, OfARankWithoutRankZeroEndsAtTheDeadline) {
  const FreePort port;
  const Error error =
      error_of([&] { start_bootstrap(place_of(1, 2, port.number), Deadline(0.3)); });
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(error.what()).find("could not reach rank 0"), std::string::npos);
}

TEST(HostAndPort, AreReadInAllForms) {
  const auto is = [](const char* value, const char* host, int port) {
    const auto parsed = parse_host_and_port(value);
    return parsed && parsed->host == host && parsed->port == port;
  };
  EXPECT_TRUE(is("host:1", "host", 1));
  EXPECT_TRUE(is("10.0.0.1:65535", "10.0.0.1", 65535));
  EXPECT_TRUE(is("[fe80::1]:80", "fe80::1", 80));
  for (const char* wrong : {"", "host", ":1", "host:", "host:0", "host:65536", "fe80::1:80",
                            "host:80x", "[]:80", "host:-1"}) {
    EXPECT_FALSE(parse_host_and_port(wrong)) << wrong;
  }
}

TEST(Interfaces, AreFoundByNameAddressAndNetwork) {
  for (const char* wanted : {"lo", "127.0.0.1", "127.0.0.0/8"}) {
    EXPECT_EQ(find_interface(wanted).name, "lo") << wanted;
  }
  const Error error = error_of([] { find_interface("240.0.0.0/8"); });
  EXPECT_NE(std::string(error.what()).find("lo (127.0.0.1)"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace tnt::comm
