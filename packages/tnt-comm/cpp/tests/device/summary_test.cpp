#include <gtest/gtest.h>

#include "tnt/comm/communicator/device_summary.hpp"

namespace tnt::comm {
namespace {

DeviceReport report_of(const std::vector<std::vector<bool>>& can_reach) {
  DeviceReport report;
  report.can_reach = can_reach;
  for (std::size_t i = 0; i < can_reach.size(); ++i) {
    report.devices.push_back({"GPU", text("0000:0", i, ":00.0"), "", 0});
  }
  return report;
}

TEST(DeviceSummaries, OfNoGpuHaveTheReason) {
  DeviceReport report;
  report.reason = "There is none.";
  const DeviceSummary summary = summarize(report, GpuSums::ipc);
  EXPECT_EQ(summary.engine, "none");
  EXPECT_EQ(summary.why, "There is none.");
}

TEST(DeviceSummaries, OfGpusThatReachEachOtherSayThatTheySum) {
  const DeviceSummary summary =
      summarize(report_of({{true, true}, {true, true}}), GpuSums::automatic);
  EXPECT_EQ(summary.engine, "ipc");
  EXPECT_EQ(summary.why, "All GPUs reach each other's memory.");
  EXPECT_EQ(summarize(report_of({{true}}), GpuSums::ipc).why, "There is one GPU.");
}

TEST(DeviceSummaries, NameTheGpusThatDoNot) {
  const DeviceSummary summary =
      summarize(report_of({{true, true}, {false, true}}), GpuSums::automatic);
  EXPECT_EQ(summary.engine, "host");
  EXPECT_EQ(summary.why, "GPU 1 (0000:01:00.0) does not reach the memory of GPU 0 (0000:00:00.0).");
}

TEST(DeviceSummaries, TellWhatCannotBeHad) {
  const DeviceSummary summary = summarize(report_of({{true, true}, {false, true}}), GpuSums::ipc);
  EXPECT_EQ(summary.engine, "none");
  EXPECT_EQ(summary.why,
            "TNT_GPU_SUMS=ipc cannot be had: GPU 1 (0000:01:00.0) does not reach the memory of GPU"
            " 0 (0000:00:00.0).");
}

TEST(DeviceSummaries, FollowTheUser) {
  const DeviceSummary summary = summarize(report_of({{true}}), GpuSums::host);
  EXPECT_EQ(summary.engine, "host");
  EXPECT_EQ(summary.why, "TNT_GPU_SUMS is host.");
}

}  // namespace
}  // namespace tnt::comm
