#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm::tests {

/// One member's part of a segment of a network, whose other members do what the test
/// says: it writes into the part and sets notifications. What is sent goes nowhere.
class ScriptedSegment final : public Segment {
 public:
  ScriptedSegment(int rank, int size, std::size_t num_bytes)
      : rank_(rank), size_(size), memory_(num_bytes / sizeof(Line) + 1) {}

  void set_notification(int sender, NotificationId id, std::uint64_t value) {
    notifications_[{sender, id}] = value;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* local() override { return memory_.front().bytes; }
  const std::byte* peer(int) const override { return nullptr; }
  void put(int, std::size_t, std::size_t, std::size_t) override {}
  bool has_room(int, std::size_t) override { return true; }
  void notify(int, NotificationId, std::uint64_t) override {}
  std::uint64_t poll(int sender, NotificationId id) const override {
    const auto found = notifications_.find({sender, id});
    return found == notifications_.end() ? 0 : found->second;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  int rank_;
  int size_;
  std::vector<Line> memory_;
  std::map<std::pair<int, NotificationId>, std::uint64_t> notifications_;
};

}  // namespace tnt::comm::tests
