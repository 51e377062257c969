// Different collectives after each other on one group, without waiting in
// between: windows change hands between operations whose ranks are at
// different places.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "naive_tree.hpp"
#include "networks.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;
using tests::sum_of;
using tests::values_of;

constexpr std::size_t kMostElements = 90021;

/// One call of a random program, the same on all ranks, and what it must give.
class Call {
 public:
  Call(CollectiveKind kind, std::size_t count, int root) : kind_(kind), count_(count), root_(root) {}

  void start(Group& group, const std::vector<float>& input, int size) {
    const auto n = static_cast<std::size_t>(size);
    const Range part = part_of(count_, n, static_cast<std::size_t>(group.rank()));
    out_.resize(kind_ == CollectiveKind::reduce_scatter ? part.size() : count_);
    switch (kind_) {
      case CollectiveKind::allreduce:
        ticket_ = group.start_allreduce(input.data(), out_.data(), count_, DType::float32,
                                        ReduceOp::sum);
        break;
      case CollectiveKind::broadcast:
        ticket_ = group.start_broadcast(input.data(), out_.data(), count_, DType::float32, root_);
        break;
      case CollectiveKind::allgather:
        ticket_ =
            group.start_allgather(input.data(), block_size(group.rank()), DType::float32, count_);
        break;
      case CollectiveKind::reduce_scatter:
        ticket_ = group.start_reduce_scatter(input.data(), out_.data(), count_, 1, DType::float32,
                                             ReduceOp::sum);
        break;
      default:
        ticket_ = group.start_barrier();
    }
  }

  void check(const std::vector<float>& sum, int rank, int size) {
    ticket_->wait(0);
    const auto n = static_cast<std::size_t>(size);
    const Range part = part_of(count_, n, static_cast<std::size_t>(rank));
    switch (kind_) {
      case CollectiveKind::allreduce:
        EXPECT_TRUE(std::equal(out_.begin(), out_.end(), sum.begin()));
        break;
      case CollectiveKind::broadcast:
        EXPECT_EQ(out_, values_of(root_, count_));
        break;
      case CollectiveKind::allgather:
        check_blocks(size);
        break;
      case CollectiveKind::reduce_scatter:
        EXPECT_TRUE(
            std::equal(out_.begin(), out_.end(), sum.begin() + static_cast<long>(part.begin)));
        break;
      default:
        break;
    }
  }

 private:
  std::size_t block_size(int rank) const {
    return count_ * static_cast<std::size_t>(rank % 3) / 2;
  }

  void check_blocks(int size) {
    const Gathered& gathered = ticket_->gathered();
    const auto* blocks = reinterpret_cast<const float*>(gathered.blocks.data());
    for (int rank = 0; rank < size; ++rank) {
      const auto which = static_cast<std::size_t>(rank);
      const auto block = values_of(rank, block_size(rank));
      const std::size_t begin = gathered.begin_of(which) / sizeof(float);
      ASSERT_EQ(gathered.ends[which] / sizeof(float), begin + block.size());
      EXPECT_TRUE(std::equal(block.begin(), block.end(), blocks + begin));
    }
  }

  CollectiveKind kind_;
  std::size_t count_;
  int root_;
  std::vector<float> out_;
  std::shared_ptr<Ticket> ticket_;
};

/// The program of one round: random, and the same on all ranks.
std::vector<Call> random_calls(std::mt19937& random, int size) {
  constexpr std::size_t kCounts[] = {0, 1, 100, 5000, 30011, kMostElements};
  constexpr CollectiveKind kKinds[] = {
      CollectiveKind::barrier, CollectiveKind::allreduce, CollectiveKind::broadcast,
      CollectiveKind::allgather, CollectiveKind::reduce_scatter};
  std::vector<Call> calls;
  for (int i = 0; i < 8; ++i) {
    calls.emplace_back(kKinds[random() % std::size(kKinds)],
                       kCounts[random() % std::size(kCounts)],
                       static_cast<int>(random() % static_cast<unsigned>(size)));
  }
  return calls;
}

class MixedCalls : public ::testing::TestWithParam<NamedJob> {};

TEST_P(MixedCalls, OfARandomProgramGiveWhatEachGivesAlone) {
  const int size = GetParam().job.size;
  const auto sum = sum_of(size, kMostElements);
  run_job(GetParam().job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const auto input = values_of(rank, kMostElements);
    std::mt19937 random(7);                                      // of the program
    std::mt19937 own_random(static_cast<unsigned>(rank) + 100);  // of this rank's delays
    for (int round = 0; round < 8; ++round) {
      std::vector<Call> calls = random_calls(random, size);
      for (Call& call : calls) {
        if (own_random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        call.start(*runtime.world(), input, size);
      }
      for (Call& call : calls) call.check(sum, rank, size);
    }
  });
}

std::vector<NamedJob> all_jobs() {
  std::vector<NamedJob> jobs = {tests::shared_memory(3), tests::on_hosts(2, 2),
                                tests::late(tests::on_hosts(2, 2)), tests::on_hosts(3, 2)};
  for (const int size : {2, 3, 4, 6, 8}) {
    jobs.push_back(tests::put_only(size));
    jobs.push_back(tests::late(tests::put_only(size)));
  }
  for (const std::string algorithm : {"direct", "halving_doubling", "pipelined", "sliced"}) {
    jobs.push_back(tests::with_algorithm(tests::late(tests::put_only(4)), algorithm));
  }
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Networks, MixedCalls, ::testing::ValuesIn(all_jobs()),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
