#include "tnt/comm/transport/rma/data_queues.hpp"

#include <thread>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kReserve = 64;  // slots
constexpr auto kLookInterval = std::chrono::microseconds(50);

}  // namespace

DataQueues::DataQueues(RmaDevice& device, std::function<void()> on_failure)
    : device_(device),
      on_failure_(std::move(on_failure)),
      is_spoilt_(static_cast<std::size_t>(device.num_queues())) {}

int DataQueues::assign() {
  const int num_data_queues = count() - 1;
  for (int attempt = 0; attempt < num_data_queues; ++attempt) {
    const auto turn = static_cast<unsigned>(next_.fetch_add(1));
    const int queue = 1 + static_cast<int>(turn % static_cast<unsigned>(num_data_queues));
    if (!is_spoilt(queue)) return queue;
  }
  throw Error(ErrorKind::peer_lost,
              text("rank ", device_.rank(), ": all ", num_data_queues, " queues of ",
                   device_.name(), " have failed with ranks that were lost."));
}

bool DataQueues::has_room(int queue, std::size_t num_requests) {
  const auto fits = [&] {
    return device_.num_queued(queue) + num_requests + kReserve <= device_.queue_capacity();
  };
  if (fits()) return true;
  drain(queue);
  return fits();
}

bool DataQueues::wait_until_idle(int queue, const Deadline& deadline) {
  while (!is_idle(queue)) {
    if (is_spoilt(queue) || deadline.is_over()) return false;
    std::this_thread::sleep_for(kLookInterval);
  }
  return !is_spoilt(queue);
}

QueueState DataQueues::drain(int queue) {
  const QueueState state = device_.drain(queue);
  if (state == QueueState::failed) {
    if (queue != kControl) is_spoilt_[static_cast<std::size_t>(queue)].store(true);
    on_failure_();
  }
  return state;
}

}  // namespace tnt::comm
