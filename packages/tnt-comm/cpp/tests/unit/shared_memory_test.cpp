#include "tnt/comm/transport/shm/shared_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

class SharedMemoryTest : public ::testing::Test {
 protected:
  ~SharedMemoryTest() override { SharedMemory::unlink(name); }
  void expect_error(const std::string& part) const {
    SharedMemory opened;
    try {
      SharedMemory::try_open(name, 8192, opened);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  const std::string name = text("/tnt-memorytest", ::getpid());
};

TEST_F(SharedMemoryTest, IsPrivateToTheUserAndExclusive) {
  const SharedMemory memory = SharedMemory::create(name, 8192);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.descriptor(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_THROW(SharedMemory::create(name, 8192), Error);
}

TEST_F(SharedMemoryTest, AnotherSizeIsAMismatch) {
  const SharedMemory memory = SharedMemory::create(name, 8192);
  SharedMemory opened;
  EXPECT_THROW(SharedMemory::try_open(name, 4096, opened), Error);
  EXPECT_TRUE(SharedMemory::try_open(name, 8192, opened));
  opened.data()[100] = std::byte{42};
  EXPECT_EQ(memory.data()[100], std::byte{42});
}

TEST_F(SharedMemoryTest, WhatDoesNotExistIsNotAnError) {
  SharedMemory opened;
  EXPECT_FALSE(SharedMemory::try_open(name, 4096, opened));
}

TEST_F(SharedMemoryTest, ThatOthersCanUseIsRefused) {
  const SharedMemory memory = SharedMemory::create(name, 8192);
  ASSERT_EQ(::fchmod(memory.descriptor(), 0660), 0);
  expect_error("can be used by other users");
}

TEST_F(SharedMemoryTest, OfAnotherUserIsRefused) {
  const SharedMemory memory = SharedMemory::create(name, 8192);
  if (::fchown(memory.descriptor(), 65534, 65534) != 0)
    GTEST_SKIP() << "only root may give it away";
  expect_error("belongs to user 65534. Remove it from /dev/shm, or use another TNT_JOB_ID");
}

TEST_F(SharedMemoryTest, TheLimitOfOpenFilesIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  expect_error("The limit of open files (ulimit -n) is 0: raise it");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(SharedMemoryTest, ReservingMoreThanThereIsFailsWithARemedy) {
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  const std::size_t too_much = (status.f_blocks + 1) * status.f_frsize;
  const SharedMemory memory = SharedMemory::create(name, too_much);
  try {
    memory.reserve(3, 0, too_much);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.find("rank 3: cannot reserve "), 0U) << what;
    EXPECT_NE(what.find(std::strerror(ENOSPC)), std::string::npos) << what;
    EXPECT_NE(what.find("--shm-size"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace tnt::comm
