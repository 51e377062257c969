#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Segment of a group with one member: private memory, nobody to notify. The
/// operating system gives memory for what is used of it.
class HeapSegment final : public Segment {
 public:
  explicit HeapSegment(std::size_t num_bytes) : num_bytes_(std::max<std::size_t>(num_bytes, 1)) {
    void* memory = ::mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
  }
  ~HeapSegment() override { ::munmap(memory_, num_bytes_); }
  HeapSegment(HeapSegment&&) = delete;

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::byte* local() override { return memory_; }
  const std::byte* peer(int) const override { return memory_; }
  std::byte* writable_peer(int) override { return memory_; }
  void put(int, std::size_t to, std::size_t from, std::size_t num_bytes) override {
    if (num_bytes > 0) std::memmove(memory_ + to, memory_ + from, num_bytes);
  }
  bool has_room(int, std::size_t) override { return true; }
  void notify(int, NotificationId, std::uint64_t) override {}
  std::uint64_t poll(int, NotificationId) const override { return 0; }

 private:
  std::size_t num_bytes_;
  std::byte* memory_;
};

/// The world of one rank: no launcher, no shared memory, no peers.
class SoloTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_of(int) const override { return 0; }
  Capabilities capabilities() const override { return {.is_peer_memory_readable = true}; }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request, const Deadline&) override {
    return std::make_unique<HeapSegment>(request.num_bytes);
  }
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int) const override { return {.host = "localhost", .pid = ::getpid()}; }
  void beat() override {}
  void leave(PeerState, const std::string&) override {}

 private:
  Doorbell doorbell_;
};

}  // namespace tnt::comm
