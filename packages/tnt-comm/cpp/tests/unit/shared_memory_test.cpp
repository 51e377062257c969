#include "tnt/comm/transport/shm/shared_memory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

class SharedMemoryTest : public ::testing::Test {
 protected:
  ~SharedMemoryTest() override { SharedMemory::unlink(name); }
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

TEST_F(SharedMemoryTest, ReservingMoreThanThereIsFailsWithARemedy) {
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  const std::size_t too_much = (status.f_blocks + 1) * status.f_frsize;
  const SharedMemory memory = SharedMemory::create(name, too_much);
  const int error = memory.reserve(0, too_much);
  EXPECT_EQ(error, ENOSPC);
  EXPECT_NE(describe_reserve_error(error, too_much).find("--shm-size"), std::string::npos);
}

}  // namespace
}  // namespace tnt::comm
