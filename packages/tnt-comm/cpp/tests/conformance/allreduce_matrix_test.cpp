// Every algorithm on every kind of network, for all numbers of ranks of a small
// job: the bits must be those of the documented tree.

#include <gtest/gtest.h>

#include <cstring>

#include "networks.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "typed_reference.hpp"

namespace tnt::comm {
namespace {

using tests::input_of;
using tests::NamedJob;
using tests::run_job;

const std::vector<std::string> kAlgorithms = {"one_shot", "two_shot", "recursive_doubling",
                                              "halving_doubling", "pipelined"};

std::vector<NamedJob> matrix_jobs() {
  std::vector<NamedJob> jobs;
  for (int size = 1; size <= 8; ++size) {
    jobs.push_back(tests::shared_memory(size));
    jobs.push_back(tests::with_algorithm(tests::shared_memory(size), "two_shot"));
  }
  for (int size = 1; size <= 8; ++size) {
    for (const std::string& algorithm : kAlgorithms) {
      jobs.push_back(tests::with_algorithm(tests::put_only(size), algorithm));
    }
    jobs.push_back(tests::put_only(size));
  }
  for (const auto& [hosts, ranks] : {std::pair{2, 2}, {2, 4}, {3, 2}, {4, 2}}) {
    jobs.push_back(tests::on_hosts(hosts, ranks));
  }
  // The exchange is the same as without levels, so one layout has it all.
  for (const std::string& algorithm : kAlgorithms) {
    jobs.push_back(tests::with_algorithm(tests::on_hosts(3, 2), algorithm));
  }
  // Orders other than that of six ranks, and hosts whose ranks are branches only there.
  jobs.push_back(tests::with_tree(tests::shared_memory(6), {3, 2}));
  for (const NamedJob& named : {tests::put_only(6), tests::on_hosts(2, 3)}) {
    const NamedJob job = tests::with_tree(named, {3, 2});
    jobs.push_back(job);
    for (const std::string& algorithm : kAlgorithms) {
      jobs.push_back(tests::with_algorithm(job, algorithm));
    }
  }
  return jobs;
}

bool can_sum_16_bit_floats(const NamedJob& named) {
  const std::string& algorithm = named.job.algorithm;
  const bool is_flat = named.job.network && !named.job.network->are_hosts_readable;
  return !is_flat || algorithm == "auto" || algorithm == "one_shot" || algorithm == "two_shot";
}

class AllreduceMatrix : public ::testing::TestWithParam<NamedJob> {
 protected:
  static std::vector<std::byte> reduction_of(DType dtype, ReduceOp op, std::size_t count) {
    return tests::reduction_of(dtype, op, GetParam().job.size, count, GetParam().job.sum_tree);
  }

  /// Runs one allreduce on all ranks, in place or not.
  static std::vector<std::byte> allreduce(Runtime& runtime, DType dtype, ReduceOp op,
                                          std::size_t count, bool in_place) {
    std::vector<std::byte> in = input_of(dtype, runtime.environment().rank, count);
    std::vector<std::byte> out = in_place ? in : std::vector<std::byte>(in.size());
    runtime.world()
        ->start({.kind = CollectiveKind::allreduce,
                 .in = in_place ? out.data() : in.data(),
                 .out = out.data(),
                 .count = count,
                 .dtype = dtype,
                 .op = op})
        ->wait(0);
    return out;
  }
};

TEST_P(AllreduceMatrix, HasTheBitsOfTheTreeForAwkwardCounts) {
  const int size = GetParam().job.size;
  const auto n = static_cast<std::size_t>(size);
  std::vector<std::size_t> counts = {0, 1, n - 1, n, n + 1, 1009, 16 * n, 65536 / n + 1};
  counts.push_back(200003);  // several slots of any kind
  std::vector<std::vector<std::byte>> expected;
  for (const std::size_t count : counts) {
    expected.push_back(reduction_of(DType::float32, ReduceOp::sum, count));
  }
  run_job(GetParam().job, [&](Runtime& runtime) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(allreduce(runtime, DType::float32, ReduceOp::sum, counts[i], i % 2 == 0),
                expected[i])
          << counts[i] << " elements";
    }
  });
}

TEST_P(AllreduceMatrix, ReducesAllTypesWithAllOperations) {
  constexpr std::size_t kCount = 257;
  struct Case {
    DType dtype;
    ReduceOp op;
    std::vector<std::byte> expected;
  };
  std::vector<Case> cases;
  for (std::size_t type = 0; type < kNumDTypes; ++type) {
    for (std::size_t op = 0; op < kNumReduceOps; ++op) {
      const Case one{static_cast<DType>(type), static_cast<ReduceOp>(op), {}};
      try {
        require_supported(one.dtype, one.op);
      } catch (const UsageError&) {
        continue;
      }
      if (is_half(one.dtype) && !can_sum_16_bit_floats(GetParam())) continue;
      cases.push_back(one);
      cases.back().expected = reduction_of(one.dtype, one.op, kCount);
    }
  }
  run_job(GetParam().job, [&](Runtime& runtime) {
    for (const Case& one : cases) {
      EXPECT_EQ(allreduce(runtime, one.dtype, one.op, kCount, false), one.expected)
          << name_of(one.dtype) << " " << name_of(one.op);
    }
  });
}

TEST_P(AllreduceMatrix, WorksManyTimesOverWithSeveralInFlight) {
  const std::vector<std::size_t> counts = {70001, 3, 4096, 150001};
  std::vector<std::vector<std::byte>> expected;
  for (const std::size_t count : counts) {
    expected.push_back(reduction_of(DType::float32, ReduceOp::sum, count));
  }
  run_job(GetParam().job, [&](Runtime& runtime) {
    for (int round = 0; round < 4; ++round) {
      std::vector<std::vector<std::byte>> data;
      std::vector<std::shared_ptr<Request>> requests;
      for (const std::size_t count : counts) {
        data.push_back(input_of(DType::float32, runtime.environment().rank, count));
        requests.push_back(runtime.world()->start({.kind = CollectiveKind::allreduce,
                                                   .in = data.back().data(),
                                                   .out = data.back().data(),
                                                   .count = count,
                                                   .dtype = DType::float32,
                                                   .op = ReduceOp::sum}));
      }
      for (auto& request : requests) request->wait(0);
      EXPECT_EQ(data, expected);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, AllreduceMatrix, ::testing::ValuesIn(matrix_jobs()),
                         tests::name_of_job);

class LargeAllreduce : public ::testing::TestWithParam<NamedJob> {};

TEST_P(LargeAllreduce, OfTenMillionElementsHasTheBitsOfTheTree) {
  constexpr std::size_t kCount = 10'000'000;
  const auto size = static_cast<std::size_t>(GetParam().job.size);
  // The same pattern for every rank, moved on by a rank's number.
  const std::vector<float> pattern = tests::values_of(0, kCount + size);
  std::vector<float> expected(kCount);
  std::vector<const std::byte*> sources;
  for (std::size_t rank = 0; rank < size; ++rank) {
    sources.push_back(reinterpret_cast<const std::byte*>(pattern.data() + rank));
  }
  TreeReducer(DType::float32, ReduceOp::sum, SumTree(GetParam().job.size))
      .reduce(expected.data(), sources.data(), size, kCount);
  run_job(GetParam().job, [&](Runtime& runtime) {
    const float* in = pattern.data() + runtime.environment().rank;
    std::vector<float> out(kCount);
    runtime.world()
        ->start({.kind = CollectiveKind::allreduce,
                 .in = in,
                 .out = out.data(),
                 .count = kCount,
                 .dtype = DType::float32,
                 .op = ReduceOp::sum})
        ->wait(0);
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), kCount * sizeof(float)), 0);
  });
}

std::vector<NamedJob> large_jobs() {
  std::vector<NamedJob> jobs = {tests::shared_memory(2), tests::shared_memory(3),
                                tests::shared_memory(8), tests::on_hosts(2, 2)};
  for (const std::string& algorithm : kAlgorithms) {
    jobs.push_back(tests::with_algorithm(tests::put_only(3), algorithm));
  }
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Networks, LargeAllreduce, ::testing::ValuesIn(large_jobs()),
                         tests::name_of_job);

}  // namespace
}  // namespace tnt::comm
