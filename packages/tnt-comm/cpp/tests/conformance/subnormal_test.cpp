// Ranks whose threads take subnormal numbers for zeros, as those of TensorFlow's pools do, sum them
// all the same: whoever reduces, the caller or the engine, the bits are the same.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "flushing_thread.hpp"
#include "networks.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;

// A subnormal float32 is the integer in its fraction times the smallest one, so sums are those of
// integers.
std::vector<std::uint32_t> subnormals_of(int rank, std::size_t count) {
  std::vector<std::uint32_t> bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    bits[i] =
        static_cast<std::uint32_t>((i * 7 + 1) % 1000 + 1000 * static_cast<std::size_t>(rank));
  }
  return bits;
}

std::vector<std::uint32_t> sum_of_subnormals(int size, std::size_t count) {
  std::vector<std::uint32_t> sums(count);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<std::uint32_t> bits = subnormals_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += bits[i];
  }
  return sums;
}

/// All ranks but the first are called from threads that flush.
void flush_on_others(const Runtime& runtime) {
  if (runtime.environment().rank > 0) tests::flush_subnormals();
}

class Subnormals : public ::testing::TestWithParam<NamedJob> {};

TEST_P(Subnormals, AreSummedByAllreduceWhoeverReduces) {
  const int size = GetParam().job.size;
  run_job(GetParam().job, [&](Runtime& runtime) {
    flush_on_others(runtime);
    for (const std::size_t count : {1, 100, 5000, 200003}) {
      const auto expected = sum_of_subnormals(size, count);
      for (int round = 0; round < 5; ++round) {
        auto bits = subnormals_of(runtime.environment().rank, count);
        auto request = runtime.world()->run({.kind = CollectiveKind::allreduce,
                                             .in = bits.data(),
                                             .out = bits.data(),
                                             .count = count,
                                             .dtype = DType::float32,
                                             .op = ReduceOp::sum});
        if (request) request->wait(0);
        EXPECT_EQ(bits, expected) << count << " elements";
      }
    }
  });
}

TEST_P(Subnormals, AreSummedByReduceScatterWhoeverReduces) {
  const int size = GetParam().job.size;
  constexpr std::size_t kRows = 1000;
  const auto expected = sum_of_subnormals(size, kRows * static_cast<std::size_t>(size));
  run_job(GetParam().job, [&](Runtime& runtime) {
    flush_on_others(runtime);
    const int rank = runtime.environment().rank;
    const auto in = subnormals_of(rank, expected.size());
    std::vector<std::uint32_t> out(kRows);
    runtime.world()
        ->start({.kind = CollectiveKind::reduce_scatter,
                 .in = in.data(),
                 .out = out.data(),
                 .count = expected.size(),
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0);
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(kRows) * rank;
    EXPECT_EQ(out, std::vector<std::uint32_t>(begin, begin + kRows));
  });
}

TEST_P(Subnormals, AreScaledAndSummedInBuckets) {
  const int size = GetParam().job.size;
  const std::vector<std::size_t> counts = {33, 5000, 40009};
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : counts) {
    tensors.push_back({.name = text("t", count), .num_elements = count});
  }
  run_job(GetParam().job, [&](Runtime& runtime) {
    flush_on_others(runtime);
    GradientReducer reducer(runtime.world(), {tensors, 32768}, "g");
    for (int step = 0; step < 5; ++step) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        auto doubled = subnormals_of(runtime.environment().rank, counts[i]);
        for (std::uint32_t& bits : doubled) bits *= 2;
        reducer.start(i, doubled.data(), 0.5);
      }
      for (std::size_t i = 0; i < counts.size(); ++i) {
        std::vector<std::uint32_t> out(counts[i]);
        reducer.finish(i, out.data());
        EXPECT_EQ(out, sum_of_subnormals(size, counts[i]));
      }
    }
  });
}

std::vector<NamedJob> all_paths() {
  std::vector<NamedJob> jobs = {tests::shared_memory(2), tests::shared_memory(3),
                                tests::with_algorithm(tests::shared_memory(3), "two_shot"),
                                tests::on_hosts(2, 2)};
  for (const char* algorithm :
       {"one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined"}) {
    jobs.push_back(tests::with_algorithm(tests::put_only(4), algorithm));
  }
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Networks, Subnormals, ::testing::ValuesIn(all_paths()),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
