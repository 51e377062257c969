#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "errors.hpp"
#include "fake_ucx.hpp"
#include "free_port.hpp"
#include "naive_tree.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/transport/rma/rma_transport.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_device.hpp"

namespace tnt::comm {
namespace {

using tests::error_of;
using tests::FakeUcx;
using tests::sum_of;
using tests::values_of;

constexpr double kAllreduceTimeoutS = 60;

/// Ranks as threads over a UCX of this process.
void run_ranks(int size, RdmaUse rdma, const std::function<void(Runtime&)>& function) {
  static std::atomic<int> num_jobs{0};
  const tests::FreePort port;
  const std::string job_id = text("ucxsums", ::getpid(), "x", num_jobs.fetch_add(1));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Environment environment;
      environment.rank = environment.node_rank = rank;
      environment.size = environment.num_nodes = size;
      environment.local_size = 1;
      environment.job_id = job_id;
      environment.timeout_s = kAllreduceTimeoutS;
      BootstrapPlace place{.rank = rank,
                           .size = size,
                           .rendezvous = {"127.0.0.1", port.number},
                           .interface = {},
                           .job_id = job_id,
                           .secret = "nobody else knows this",
                           .stall_report_s = 30};
      const Deadline deadline(kAllreduceTimeoutS);
      auto device =
          std::make_unique<UcxDevice>(FakeUcx::library(), std::move(place), rdma, deadline);
      Runtime runtime(environment,
                      std::make_unique<RmaTransport>(std::move(device), environment, deadline));
      function(runtime);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class AllreduceOverUcx : public ::testing::TestWithParam<std::tuple<int, RdmaUse>> {
 protected:
  FakeUcx fake_;
};

// One block, some, and more than are under way at once, whose last one is short; small ones whose
// messages go together.
TEST_P(AllreduceOverUcx, HasTheSameBitsInPlaceAndOutOfPlace) {
  const auto [num_ranks, rdma] = GetParam();
  const int size = num_ranks;
  for (const std::size_t count : {1UL, 1009UL, 65536UL, 65537UL, 1'000'003UL}) {
    const auto expected = sum_of(size, count);
    run_ranks(size, rdma, [&](Runtime& runtime) {
      const auto input = values_of(runtime.environment().rank, count);
      for (int round = 0; round < 3; ++round) {
        std::vector<float> out(count);
        runtime.world()
            ->start({.kind = CollectiveKind::allreduce,
                     .in = input.data(),
                     .out = out.data(),
                     .count = count,
                     .dtype = DType::float32,
                     .op = ReduceOp::sum})
            ->wait(0);
        EXPECT_EQ(out, expected);
        std::vector<float> both = input;
        runtime.world()
            ->start({.kind = CollectiveKind::allreduce,
                     .in = both.data(),
                     .out = both.data(),
                     .count = count,
                     .dtype = DType::float32,
                     .op = ReduceOp::sum})
            ->wait(0);
        EXPECT_EQ(both, expected);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllreduceOverUcx,
                         ::testing::Combine(::testing::Values(2, 3, 4, 6),
                                            ::testing::Values(RdmaUse::off, RdmaUse::on)));

// Others' sums come straight into the array; not when the call has ended by an error.
TEST(AllreduceOverUcxThatFails, LeavesTheArrayToItsCaller) {
  constexpr std::size_t kCount = 4 << 20;
  FakeUcx fake;
  std::atomic<int> num_failed{0};
  std::atomic<bool> is_checked{false};
  const Deadline deadline(kAllreduceTimeoutS);
  run_ranks(2, RdmaUse::off, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    std::vector<float> data(kCount, 1);
    runtime.world()
        ->start({.kind = CollectiveKind::allreduce,
                 .in = data.data(),
                 .out = data.data(),
                 .count = 1,
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0);
    // Some blocks are through; sums of others come, and are not handed over in time.
    if (rank == 0) fake.first_held = fake.num_sent + 40;
    auto request = runtime.world()->start({.kind = CollectiveKind::allreduce,
                                           .in = data.data(),
                                           .out = data.data(),
                                           .count = kCount,
                                           .dtype = DType::float32,
                                           .op = ReduceOp::sum});
    error_of([&] { request->wait(0.5); });
    const std::vector<float> left = data;
    ++num_failed;
    while (num_failed < 2 && !deadline.is_over()) std::this_thread::yield();
    fake.held_worker = 0;
    // All that is on its way arrives before what follows it.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(data, left);
    EXPECT_EQ(data.back(), 1);
  });
}

}  // namespace
}  // namespace tnt::comm
