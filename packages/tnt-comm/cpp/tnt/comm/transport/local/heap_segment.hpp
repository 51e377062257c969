#pragma once

#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// Segment of a group with one member: private memory, nobody to notify. The
/// operating system gives memory for what is used of it.
class HeapSegment final : public Segment {
 public:
  explicit HeapSegment(std::size_t num_bytes);
  ~HeapSegment() override;
  HeapSegment(const HeapSegment&) = delete;
  HeapSegment& operator=(const HeapSegment&) = delete;

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::byte* local() override { return memory_; }
  const std::byte* peer(int) const override { return memory_; }
  std::byte* writable_peer(int) override { return memory_; }
  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override;
  bool has_room(int, std::size_t) override { return true; }
  void notify(int, NotificationId, std::uint64_t) override {}
  std::uint64_t poll(int, NotificationId) const override { return 0; }
  void flush() override {}

 private:
  std::size_t num_bytes_;
  std::byte* memory_;
};

}  // namespace tnt::comm
