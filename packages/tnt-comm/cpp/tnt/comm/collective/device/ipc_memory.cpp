#include "tnt/comm/collective/device/ipc_memory.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace tnt::comm {
namespace {

// The granularity in which drivers share memory: of less, neighbours would be shared as well.
constexpr std::size_t kSharedBytes = std::size_t{2} << 20;

/// Memory whose owner does not need it any more, but others do.
struct Kept {
  std::unique_ptr<DeviceBuffer> memory;
  std::shared_ptr<Segment> segment;
  NotificationId closed;

  bool is_closed_everywhere() const {
    for (int member = 0; member < segment->size(); ++member) {
      if (member != segment->rank() && segment->poll(member, closed) == 0) return false;
    }
    return true;
  }
};

/// All of it; what is left goes with the process.
class AllKept {
 public:
  void add(Kept more) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(more));
  }
  void free_what_nobody_has() {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const Kept& kept) { return kept.is_closed_everywhere(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Kept> all_;
};

AllKept& all_kept() {
  static auto* all = new AllKept();
  return *all;
}

}  // namespace

IpcMemory::IpcMemory(const std::shared_ptr<Device>& device, std::size_t num_bytes) {
  all_kept().free_what_nobody_has();  // there may not be enough for both
  local_ = std::make_unique<DeviceBuffer>(
      device, round_up(std::max<std::size_t>(num_bytes, 1), kSharedBytes));
}

IpcMemory::~IpcMemory() {
  close_peers();
  if (!segment_) return;
  say(Counter::closed, 1);
  all_kept().add({std::move(local_), segment_, first_ + static_cast<std::size_t>(Counter::closed)});
  all_kept().free_what_nobody_has();
}

void IpcMemory::join(std::shared_ptr<Segment> segment, NotificationId first) {
  segment_ = std::move(segment);
  first_ = first;
}

void IpcMemory::say_copied() {
  const std::lock_guard lock(mutex_);
  say(Counter::copied, ++num_copied_);
}

void IpcMemory::wait_for_readers(const Deadline& deadline,
                                 const std::function<bool(int)>& is_awaited) const {
  const auto is_late = [&](int member) {
    return member != segment_->rank() && is_awaited(member) &&
           segment_->poll(member, first_ + static_cast<std::size_t>(Counter::copied)) <
               num_queued_.load();
  };
  for (int member = 0; segment_ && member < segment_->size(); ++member) {
    while (is_late(member) && !deadline.is_over()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void IpcMemory::say(Counter counter, std::uint64_t value) {
  for (int member = 0; member < segment_->size(); ++member) {
    if (member == segment_->rank()) continue;
    segment_->notify(member, first_ + static_cast<std::size_t>(counter), value);
  }
}

}  // namespace tnt::comm
