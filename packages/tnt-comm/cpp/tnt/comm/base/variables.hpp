// Written by tools/write_environment.py from environment.toml.
// clang-format off
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tnt::comm::variables {

/// Words in the order of the enumeration that they stand for; empty ones are none.
using Words = std::array<std::string_view, 6>;

/// A variable, and what its value may be.
struct Variable {
  const char* name;
  const char* fallback = nullptr;  ///< text of the value where it is not set
  int minimum = 0;                 ///< of an integer
  int maximum = 2147483647;
  std::size_t least_bytes = 0;     ///< of a text
  Words words{};
};

constexpr Variable kRank{.name = "TNT_RANK"};
constexpr Variable kSize{.name = "TNT_SIZE"};
constexpr Variable kLocalRank{.name = "TNT_LOCAL_RANK"};
constexpr Variable kLocalSize{.name = "TNT_LOCAL_SIZE"};
constexpr Variable kNodeRank{.name = "TNT_NODE_RANK"};
constexpr Variable kNumNodes{.name = "TNT_NUM_NODES"};
constexpr Variable kJobId{.name = "TNT_JOB_ID"};
constexpr Variable kTransport{.name = "TNT_TRANSPORT", .fallback = "auto", .words = {"auto", "shm", "gpi2", "ucx"}};
constexpr Variable kTimeoutS{.name = "TNT_TIMEOUT_S", .fallback = "600"};
constexpr Variable kStallS{.name = "TNT_STALL_S", .fallback = "5"};
constexpr Variable kStallReportS{.name = "TNT_STALL_REPORT_S"};
constexpr Variable kAllreduceAlgorithm{.name = "TNT_ALLREDUCE_ALGORITHM", .fallback = "auto", .words = {"auto", "one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined"}};
constexpr Variable kSumTree{.name = "TNT_SUM_TREE"};
constexpr Variable kGpi2Library{.name = "TNT_GPI2_LIBRARY"};
constexpr Variable kGpi2Port{.name = "TNT_GPI2_PORT", .minimum = 1024, .maximum = 64511};
constexpr Variable kUcxLibrary{.name = "TNT_UCX_LIBRARY"};
constexpr Variable kUcxRdma{.name = "TNT_UCX_RDMA", .fallback = "auto", .words = {"auto", "on", "off"}};
constexpr Variable kCudaLibrary{.name = "TNT_CUDA_LIBRARY"};
constexpr Variable kGpuSums{.name = "TNT_GPU_SUMS", .fallback = "auto", .words = {"auto", "host", "ipc"}};
constexpr Variable kRendezvous{.name = "TNT_RENDEZVOUS"};
constexpr Variable kJobSecret{.name = "TNT_JOB_SECRET", .least_bytes = 16};
constexpr Variable kInterface{.name = "TNT_INTERFACE"};
constexpr Variable kTimeline{.name = "TNT_TIMELINE"};
constexpr Variable kLogLevel{.name = "TNT_LOG_LEVEL", .fallback = "WARNING", .words = {"DEBUG", "INFO", "WARNING", "ERROR"}};

/// What describes a rank. All other variables are settings of the user.
constexpr std::array kOfRanks = {kRank.name, kSize.name, kLocalRank.name, kLocalSize.name, kNodeRank.name, kNumNodes.name, kJobId.name};

}  // namespace tnt::comm::variables
