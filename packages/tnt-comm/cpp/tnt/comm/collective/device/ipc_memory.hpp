#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/device/device.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The memory of a reducer on the GPUs of one host: this rank's, and that of the others, which it
/// has opened.
///
/// What others have opened must not be freed before they have closed it, nor may this process end
/// while their GPUs copy from it. So ranks count what they have copied, and say when they have
/// closed; memory that others still have is kept until they have not. Thread-safe, as far as
/// counters are concerned.
class IpcMemory {
 public:
  static constexpr std::size_t kNumNotifications = 2;

  IpcMemory(const std::shared_ptr<Device>& device, std::size_t num_bytes);
  ~IpcMemory();
  IpcMemory(IpcMemory&&) = delete;

  DevicePointer data() const { return local_->data(); }
  IpcHandle handle() const { return local_->handle(); }

  /// In the order of the ranks of the host; null for this rank.
  void add_peer(std::unique_ptr<PeerBuffer> peer) { peers_.push_back(std::move(peer)); }
  void close_peers() { peers_.clear(); }
  std::size_t size() const { return peers_.size(); }
  /// Where the memory of a rank of the host begins.
  DevicePointer part_of(std::size_t local_rank) const {
    return peers_[local_rank] ? peers_[local_rank]->data() : data();
  }

  /// The segment of the ranks of the host, with notifications from `first` on. Before any use.
  void join(std::shared_ptr<Segment> segment, NotificationId first);

  /// Of each bucket and step: its copies are in the stream, and they are made.
  void count_queued() { num_queued_.fetch_add(1); }
  void say_copied();

  /// Waits until the GPUs of all others have copied what this rank has as well, for as long as
  /// `is_awaited` says so of a rank of the host.
  void wait_for_readers(const Deadline& deadline, const std::function<bool(int)>& is_awaited) const;

 private:
  enum class Counter : std::size_t { copied, closed };
  void say(Counter counter, std::uint64_t value);

  std::unique_ptr<DeviceBuffer> local_;
  std::vector<std::unique_ptr<PeerBuffer>> peers_;
  std::shared_ptr<Segment> segment_;
  NotificationId first_ = 0;
  std::atomic<std::uint64_t> num_queued_{0};
  std::mutex mutex_;
  std::uint64_t num_copied_ = 0;
};

}  // namespace tnt::comm
