#include "tnt/comm/collective/select.hpp"

#include <gtest/gtest.h>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using Algorithm = AllreduceAlgorithm;

constexpr Topology kTopologies[] = {Topology::readable, Topology::put_only, Topology::hierarchical};

Algorithm choose(const AllreduceCase& wanted, Algorithm requested = Algorithm::automatic) {
  return choose_allreduce(wanted, requested);
}

AllreduceCase put_only(int size, std::size_t num_bytes) {
  return {.num_bytes = num_bytes, .topology = Topology::put_only, .num_members = size};
}

std::string refusal(const AllreduceCase& wanted, Algorithm requested) {
  try {
    choose(wanted, requested);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Select, TinyMessagesTakeFewRoundsAndFewMessages) {
  // Up to eight ranks one round of n-1 messages; with more, log n of one each.
  for (const int size : {2, 3, 4, 8}) {
    EXPECT_EQ(choose(put_only(size, 8)), Algorithm::one_shot) << size;
  }
  for (const int size : {16, 64}) {
    EXPECT_EQ(choose(put_only(size, 8)), Algorithm::recursive_doubling) << size;
  }
}

TEST(Select, LargeMessagesAreSplitAndPipelined) {
  for (const int size : {2, 3, 4, 8, 16, 64}) {
    EXPECT_EQ(choose(put_only(size, 100 << 20)), Algorithm::pipelined) << size;
  }
}

TEST(Select, AChosenAlgorithmStaysChosenAsMessagesGrow) {
  for (const int size : {2, 4, 6, 8, 16}) {
    Algorithm before = choose(put_only(size, 1));
    int num_changes = 0;
    for (std::size_t num_bytes = 64; num_bytes < (1 << 24); num_bytes += num_bytes / 8 + 1) {
      const Algorithm chosen = choose(put_only(size, num_bytes));
      if (chosen != before) ++num_changes;
      before = chosen;
    }
    EXPECT_LE(num_changes, 3) << size;
  }
}

TEST(Select, SixteenBitFloatsAreRoundedOnce) {
  for (const std::size_t num_bytes : {8, 100'000, 100'000'000}) {
    for (const int size : {2, 5, 64}) {
      AllreduceCase wanted = put_only(size, num_bytes);
      wanted.dtype = DType::bfloat16;
      EXPECT_EQ(pattern_of(choose(wanted)).scheme.radices, Radices::one);
    }
  }
}

TEST(Select, OverHierarchicalsSixteenBitFloatsTravelAsFloat32) {
  const AllreduceCase wanted{.num_bytes = 100 << 20,
                             .dtype = DType::float16,
                             .topology = Topology::hierarchical,
                             .num_members = 8,
                             .num_hosts = 4};
  EXPECT_EQ(choose(wanted), Algorithm::pipelined);
}

TEST(Select, EveryCaseHasAnAlgorithmThatCanBeRequestedToo) {
  for (const Topology topology : kTopologies) {
    for (const DType dtype : {DType::float32, DType::float16}) {
      for (std::size_t num_bytes = 0; num_bytes < (1 << 26); num_bytes = 3 * num_bytes + 1) {
        for (int size = 2; size <= 64; size += 2) {
          const AllreduceCase wanted{num_bytes, dtype, topology, size, size / 2};
          if (topology == Topology::hierarchical && size < 4) continue;
          const Algorithm chosen = choose(wanted);
          EXPECT_NE(chosen, Algorithm::automatic);
          EXPECT_EQ(choose(wanted, chosen), chosen);
        }
      }
    }
  }
}

TEST(Select, ARequestThatDoesNotFitIsRefusedWithTheReasonAndTheAlternatives) {
  const std::string on_one_host =
      refusal({.num_bytes = 8, .num_members = 2}, Algorithm::halving_doubling);
  EXPECT_NE(on_one_host.find("'halving_doubling'"), std::string::npos) << on_one_host;
  EXPECT_NE(on_one_host.find("exchanges messages"), std::string::npos) << on_one_host;
  EXPECT_NE(on_one_host.find("auto, one_shot, two_shot"), std::string::npos) << on_one_host;

  AllreduceCase halves = put_only(4, 8);
  halves.dtype = DType::float16;
  const std::string rounded = refusal(halves, Algorithm::recursive_doubling);
  EXPECT_NE(rounded.find("would round 16-bit floats more than once"), std::string::npos) << rounded;
  EXPECT_NE(rounded.find("float16 among 4 ranks"), std::string::npos) << rounded;
}

TEST(Select, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    parse_allreduce_algorithm("ring");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("TNT_ALLREDUCE_ALGORITHM='ring'"), std::string::npos) << what;
    EXPECT_NE(what.find("recursive_doubling, halving_doubling, pipelined"), std::string::npos);
  }
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::one_shot, Algorithm::pipelined}) {
    EXPECT_EQ(parse_allreduce_algorithm(std::string(name_of(algorithm))), algorithm);
  }
}

}  // namespace
}  // namespace tnt::comm
