#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm {
namespace {

TEST(Limit, IsNamedWithItsValue) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(
      advice_for_limit(RLIMIT_NOFILE, "open files (ulimit -n)"),
      "The limit of open files (ulimit -n) is " + std::to_string(limit.rlim_cur) + ": raise it");
}

// Runs in a child, since the limit is one of the whole process.
bool names_the_limit_of_threads() {
  const rlimit one{1, 1};
  // Root has no such limit.
  if (::setresuid(65534, 65534, 65534) != 0 || ::setrlimit(RLIMIT_NPROC, &one) != 0) return false;
  try {
    start_without_signals("test", [] {}).join();
    return false;
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.find("The limit of processes and threads (ulimit -u) is 1: raise it") !=
           std::string::npos;
  }
}

TEST(Limit, OfThreadsIsNamedWhereNoneCanBeStarted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(names_the_limit_of_threads() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace tnt::comm
