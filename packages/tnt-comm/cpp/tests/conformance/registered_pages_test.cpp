#include "tnt/comm/collective/device/registered_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_program.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {
namespace {

using tests::FakeCuda;
using tests::gpu;

bool has_page_in_child(std::byte* page) {
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char is_resident = 0;
    ::_exit(::mincore(page, 1, &is_resident) == 0 ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST(RegisteredPages, AreNotInForkedChildren) {
  const FakeCuda cuda;
  const auto memory = std::make_shared<HeapSegment>(3 * page_bytes());
  std::byte* const first = memory->local();
  std::byte* const second = first + page_bytes();
  {
    const RegisteredPages pages(gpu(0), {{memory, second + 100, 10}, {memory, second + 200, 10}});
    EXPECT_TRUE(has_page_in_child(first));
    EXPECT_FALSE(has_page_in_child(second));
    EXPECT_TRUE(has_page_in_child(second + page_bytes()));
  }
  EXPECT_TRUE(has_page_in_child(second));
}

}  // namespace
}  // namespace tnt::comm
