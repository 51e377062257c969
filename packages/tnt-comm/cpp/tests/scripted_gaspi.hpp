#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm::tests {

/// GASPI for rank 0, whose peers do what the test says: it writes into the memory of
/// the one segment and sets notifications. What is sent goes nowhere.
class ScriptedGaspi final : public RmaDevice {
 public:
  explicit ScriptedGaspi(int size) : size_(size) {}

  std::vector<std::byte>& memory() { return memory_; }
  void set_notification(std::size_t slot, std::uint32_t word) { words_[slot] = word; }
  std::size_t num_written() const { return num_written_; }

  std::string name() const override { return "script"; }
  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::byte* allocate(SegmentId, std::size_t num_bytes) override {
    memory_.resize(num_bytes);
    return memory_.data();
  }
  void release(SegmentId) override {}
  void introduce(SegmentId, int, const Deadline&) override {}
  void introduce_to_all(SegmentId) override {}
  void write(const RmaWrite&, int) override { ++num_written_; }
  void notify(int, SegmentId, std::size_t, std::uint32_t, int) override {}
  std::uint32_t take_notification(SegmentId, std::size_t slot) override {
    return std::exchange(words_[slot], 0U);
  }
  std::size_t num_notifications() const override { return 512; }
  int num_queues() const override { return 2; }
  std::size_t queue_capacity() const override { return 256; }
  std::size_t num_queued(int) const override { return 0; }
  QueueState drain(int) override { return QueueState::idle; }
  std::vector<int> failed_ranks() const override { return {}; }
  std::unique_ptr<HostProbe> probe_of_host(int) const override { return nullptr; }

 private:
  int size_;
  std::vector<std::byte> memory_;
  std::map<std::size_t, std::uint32_t> words_;
  std::size_t num_written_ = 0;
};

}  // namespace tnt::comm::tests
