#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "fake_gaspi.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm::tests {

/// Every rank is on a host of its own, whose kernel always runs.
class FakeHostProbe final : public HostProbe {
 public:
  FakeHostProbe(std::shared_ptr<FakeFabric> fabric, int asking, int asked)
      : fabric_(std::move(fabric)), asking_(asking), asked_(asked) {}

  std::string host() const override { return text("host-of-", asked_); }
  void ask() override {
    const std::lock_guard lock(fabric_->mutex_);
    answer_ = fabric_->is_connected(asking_, asked_) ? Answer::given : Answer::none;
  }
  Answer answer() override { return answer_; }

 private:
  std::shared_ptr<FakeFabric> fabric_;
  int asking_;
  int asked_;
  Answer answer_ = Answer::none;
};

FakeFabric::FakeFabric(int size)
    : size_(size), endpoints_(static_cast<std::size_t>(size)), wire_([this] { run(); }) {}

FakeFabric::~FakeFabric() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  wire_.join();
}

void FakeFabric::kill(int rank) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).is_dead = true;
  changed_.notify_all();
}

void FakeFabric::stop(int rank) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).is_stopped = true;
}

void FakeFabric::resume(int rank) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).is_stopped = false;
  changed_.notify_all();
}

void FakeFabric::cut_off(int rank) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).is_cut_off = true;
}

bool FakeFabric::is_connected(int one, int other) {
  return one == other || !(endpoint(one).is_cut_off || endpoint(other).is_cut_off);
}

void FakeFabric::fail_looks(int rank, int count) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).num_failing_looks = count;
}

void FakeFabric::fail_allocation(int rank, int num_allocations) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).num_allocations_left = num_allocations;
}

void FakeFabric::fail_release(int rank, SegmentId segment) {
  const std::lock_guard lock(mutex_);
  endpoint(rank).failing_release = segment;
}

bool FakeFabric::has_failed_release(int rank) {
  const std::lock_guard lock(mutex_);
  return !endpoint(rank).failing_release;
}

bool FakeFabric::has_segment(int rank, SegmentId segment) {
  const std::lock_guard lock(mutex_);
  return endpoint(rank).segments.contains(segment);
}

bool FakeFabric::has_failed_allocation(int rank) {
  const std::lock_guard lock(mutex_);
  return !std::exchange(endpoint(rank).num_allocations_left, std::nullopt);
}

void FakeFabric::post(const Request& request) {
  Endpoint& sender = endpoint(request.from);
  const auto queue = static_cast<std::size_t>(request.queue);
  if (sender.num_queued[queue] == kQueueCapacity) {
    throw Error(ErrorKind::comm, text("posted to the full queue ", request.queue));
  }
  const auto& target = endpoint(request.write.rank).segments;
  const auto segment = target.find(request.write.to_segment);
  const bool is_known = segment != target.end() && segment->second.known_to.contains(request.from);
  if (!is_known && !endpoint(request.write.rank).is_dead) {
    throw Error(ErrorKind::comm, "wrote to a segment that was not made known");
  }
  ++sender.num_queued[queue];
  requests_.push_back(request);
  changed_.notify_all();
}

void FakeFabric::run() {
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    if (!execute_one()) changed_.wait(lock);
  }
}

bool FakeFabric::execute_one() {
  const auto is_possible = [this](const Request& request) {
    const Endpoint& target = endpoint(request.write.rank);
    return is_connected(request.from, request.write.rank) && (!target.is_stopped || target.is_dead);
  };
  const auto found = std::find_if(requests_.begin(), requests_.end(), is_possible);
  if (found == requests_.end()) return false;
  const Request request = *found;
  requests_.erase(found);
  execute(request);
  return true;
}

void FakeFabric::execute(const Request& request) {
  Endpoint& sender = endpoint(request.from);
  Endpoint& target = endpoint(request.write.rank);
  const auto queue = static_cast<std::size_t>(request.queue);
  ++sender.num_complete[queue];
  if (sender.is_dead) return;
  const auto segment = target.segments.find(request.write.to_segment);
  if (target.is_dead || segment == target.segments.end()) {
    sender.has_failure[queue] = true;
    sender.failed_ranks.insert(request.write.rank);
    return;
  }
  Memory& memory = segment->second;
  if (request.value != 0) {
    memory.slots[request.slot] = request.value;
    return;
  }
  const Memory& source = sender.segments.at(request.write.from_segment);
  std::memcpy(memory.aligned + request.write.to, source.aligned + request.write.from,
              request.write.num_bytes);
}

std::byte* FakeGaspi::allocate(SegmentId segment, std::size_t num_bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::lock_guard lock(fabric_->mutex_);
  if (own().segments.contains(segment)) throw Error(ErrorKind::comm, "the segment id is in use");
  std::optional<int>& num_left = own().num_allocations_left;
  if (num_left && (*num_left)-- == 0) {
    num_left.reset();
    throw Error(ErrorKind::comm, "out of memory on purpose");
  }
  FakeFabric::Memory& memory = own().segments[segment];
  memory.num_bytes = num_bytes;
  memory.bytes = std::make_unique<std::byte[]>(num_bytes + kAlignment);  // zeroed
  void* pointer = memory.bytes.get();
  std::size_t space = num_bytes + kAlignment;
  memory.aligned = static_cast<std::byte*>(std::align(kAlignment, num_bytes, pointer, space));
  return memory.aligned;
}

void FakeGaspi::release(SegmentId segment) {
  const std::lock_guard lock(fabric_->mutex_);
  if (own().failing_release == segment) {
    own().failing_release.reset();
    throw Error(ErrorKind::comm, "not released on purpose");
  }
  own().segments.erase(segment);
}

void FakeGaspi::introduce(SegmentId segment, int rank, const Deadline&) {
  const std::lock_guard lock(fabric_->mutex_);
  if (fabric_->endpoint(rank).is_dead) throw Error(ErrorKind::comm, "the rank is dead");
  own().segments.at(segment).known_to.insert(rank);
}

void FakeGaspi::introduce_to_all(SegmentId segment) {
  std::unique_lock lock(fabric_->mutex_);
  for (int rank = 0; rank < fabric_->size_; ++rank)
    own().segments.at(segment).known_to.insert(rank);
  const int generation = fabric_->num_generations_;
  if (++fabric_->num_waiting_ == fabric_->size_) {
    fabric_->num_waiting_ = 0;
    ++fabric_->num_generations_;
    fabric_->changed_.notify_all();
  }
  fabric_->changed_.wait(lock, [&] { return fabric_->num_generations_ != generation; });
}

void FakeGaspi::write(const RmaWrite& request, int queue) {
  const std::lock_guard lock(fabric_->mutex_);
  fabric_->post({rank_, queue, request, 0, 0});
}

void FakeGaspi::notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                       int queue) {
  RmaWrite target;
  target.rank = rank;
  target.to_segment = to_segment;
  const std::lock_guard lock(fabric_->mutex_);
  fabric_->post({rank_, queue, target, slot, value});
}

std::uint32_t FakeGaspi::take_notification(SegmentId segment, std::size_t slot) {
  const std::lock_guard lock(fabric_->mutex_);
  if (own().num_failing_looks > 0) {
    --own().num_failing_looks;
    throw Error(ErrorKind::comm, "the look has failed");
  }
  auto& slots = own().segments.at(segment).slots;
  const auto found = slots.find(slot);
  if (found == slots.end() || own().is_dead) return 0;
  return std::exchange(found->second, 0);
}

std::size_t FakeGaspi::num_queued(int queue) const {
  const std::lock_guard lock(fabric_->mutex_);
  return own().num_queued[static_cast<std::size_t>(queue)];
}

QueueState FakeGaspi::drain(int queue) {
  const std::lock_guard lock(fabric_->mutex_);
  const auto index = static_cast<std::size_t>(queue);
  own().num_queued[index] -= std::exchange(own().num_complete[index], 0);
  if (std::exchange(own().has_failure[index], false)) return QueueState::failed;
  return own().num_queued[index] == 0 ? QueueState::idle : QueueState::busy;
}

std::vector<int> FakeGaspi::failed_ranks() const {
  const std::lock_guard lock(fabric_->mutex_);
  return {own().failed_ranks.begin(), own().failed_ranks.end()};
}

std::unique_ptr<HostProbe> FakeGaspi::probe_of_host(int rank) const {
  return std::make_unique<FakeHostProbe>(fabric_, rank_, rank);
}

}  // namespace tnt::comm::tests
