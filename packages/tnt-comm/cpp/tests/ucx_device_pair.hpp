#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fake_ucx.hpp"
#include "free_port.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_device.hpp"

namespace tnt::comm::tests {

inline constexpr double kDeviceTimeoutS = 60;
inline constexpr SegmentId kSegment = 3;
inline constexpr std::size_t kSegmentBytes = 1 << 20;
inline constexpr int kQueue = 1;

/// Rank 0 sends, rank 1 receives; each has a segment of the same number.
class UcxDevicePair : public ::testing::Test {
 protected:
  explicit UcxDevicePair(RdmaUse of_sender = RdmaUse::off, RdmaUse of_receiver = RdmaUse::off) {
    const FreePort port;
    std::thread other([&] { devices_[1] = device_of(1, port.number, of_receiver); });
    devices_[0] = device_of(0, port.number, of_sender);
    other.join();
    for (int rank = 0; rank < 2; ++rank) {
      memory_[rank] = devices_[rank]->allocate(kSegment, kSegmentBytes);
    }
    fake_.num_sent = 0;
  }
  ~UcxDevicePair() override {
    fake_.is_held = false;
    fake_.are_puts_held = false;
  }

  static std::unique_ptr<UcxDevice> device_of(int rank, int port, RdmaUse rdma) {
    BootstrapPlace place{.rank = rank,
                         .size = 2,
                         .rendezvous = {"127.0.0.1", port},
                         .interface = {},
                         .job_id = "devices1",
                         .secret = "nobody else knows this",
                         .stall_report_s = 30};
    return std::make_unique<UcxDevice>(FakeUcx::library(), std::move(place), rdma,
                                       Deadline(kDeviceTimeoutS));
  }

  UcxDevice& sender() { return *devices_[0]; }
  std::size_t num_messages() const { return fake_.num_sent; }

  /// Writes bytes of that value to the same place.
  void write(std::size_t offset, std::size_t num_bytes, int value, int queue = kQueue) {
    std::memset(memory_[0] + offset, value, num_bytes);
    sender().write({.from_segment = kSegment,
                    .from = offset,
                    .rank = 1,
                    .to_segment = kSegment,
                    .to = offset,
                    .num_bytes = num_bytes},
                   queue);
  }
  void notify(std::size_t slot, int queue = kQueue) {
    sender().notify(1, kSegment, slot, 7, queue);
  }
  void notify_later(std::size_t slot, int queue = kQueue) {
    sender().notify_later(1, kSegment, slot, 7, queue);
  }

  bool is_notified(std::size_t slot) { return devices_[1]->take_notification(kSegment, slot) != 0; }
  void await(std::size_t slot) {
    const Deadline deadline(kDeviceTimeoutS);
    while (!is_notified(slot)) ASSERT_FALSE(deadline.is_over());
  }
  bool has(std::size_t offset, std::size_t num_bytes, int value) const {
    const std::vector<std::byte> wanted(num_bytes, static_cast<std::byte>(value));
    return std::memcmp(memory_[1] + offset, wanted.data(), num_bytes) == 0;
  }

  FakeUcx fake_;
  std::unique_ptr<UcxDevice> devices_[2];
  std::byte* memory_[2] = {};
};

}  // namespace tnt::comm::tests
