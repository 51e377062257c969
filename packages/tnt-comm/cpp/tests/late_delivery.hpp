#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm::tests {

/// Carries out puts and notifications later, in a thread of its own: those to
/// one member in their order, those to different members in any. The source of
/// a put is read only then, as a network card does.
class LateDelivery {
 public:
  explicit LateDelivery(std::shared_ptr<Segment> segment)
      : segment_(std::move(segment)),
        queues_(static_cast<std::size_t>(segment_->size())),
        random_(static_cast<unsigned>(segment_->rank()) + 77),
        thread_([this] { run(); }) {}

  ~LateDelivery() {
    flush();
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) {
    add(member, {.to = to, .from = from, .num_bytes = num_bytes});
  }
  void notify(int member, NotificationId id, std::uint64_t value) {
    add(member, {.id = id, .value = value});
  }
  void flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_waiting_ == 0; });
  }

 private:
  struct Late {
    std::size_t to = 0;
    std::size_t from = 0;
    std::size_t num_bytes = 0;
    NotificationId id = 0;
    std::uint64_t value = 0;  // of a notification; a put has none
  };

  void add(int member, const Late& late) {
    {
      const std::lock_guard lock(mutex_);
      queues_[static_cast<std::size_t>(member)].push_back(late);
      ++num_waiting_;
    }
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return num_waiting_ > 0 || is_ending_; });
      if (num_waiting_ == 0) return;
      const std::size_t member = random_() % queues_.size();
      if (queues_[member].empty()) continue;
      const Late late = queues_[member].front();
      queues_[member].pop_front();
      lock.unlock();
      if (random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (late.value == 0) {
        segment_->put(static_cast<int>(member), late.to, late.from, late.num_bytes);
      } else {
        segment_->notify(static_cast<int>(member), late.id, late.value);
      }
      lock.lock();
      --num_waiting_;
      if (num_waiting_ == 0) changed_.notify_all();
    }
  }

  std::shared_ptr<Segment> segment_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Late>> queues_;
  std::size_t num_waiting_ = 0;
  bool is_ending_ = false;
  std::mt19937 random_;
  std::thread thread_;
};

}  // namespace tnt::comm::tests
