#include "tnt/comm/collective/device/ipc_bucket.hpp"

#include "tnt/comm/collective/slot_ring.hpp"

namespace tnt::comm {

IpcBucket::IpcBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec, SumTree tree,
                     std::shared_ptr<Device> device, std::shared_ptr<EngineBell> bell,
                     std::shared_ptr<IpcMemory> memory, std::shared_ptr<Segment> segment,
                     const Layout& layout)
    : DeviceBucket(std::move(abort_state), spec, device, std::move(bell)),
      dtype_(spec.dtype),
      count_(spec.count),
      tree_(std::move(tree)),
      memory_(std::move(memory)),
      segment_(std::move(segment)),
      layout_(layout),
      reduced_(std::move(device)) {}

bool IpcBucket::try_begin() {
  if (!is_packed()) return false;
  say(Counter::posted);
  phase_ = Phase::posted;
  return true;
}

Progress IpcBucket::advance_step() {
  switch (phase_) {
    case Phase::posted:
      if (!have_all_said(Counter::posted)) return Progress::pending;
      sum_chunk();
      phase_ = Phase::summing;
      return Progress::advanced;
    case Phase::summing:
      if (!reduced_.is_complete()) return Progress::pending;
      say(Counter::reduced);
      phase_ = Phase::reduced;
      return Progress::advanced;
    case Phase::reduced:
      if (!have_all_said(Counter::reduced)) return Progress::pending;
      copy_chunks_of_others();
      return Progress::done;
  }
  return Progress::pending;
}

void IpcBucket::sum_chunk() {
  const Range chunk = chunk_of_member(rank());
  if (chunk.size() > 0) {
    std::vector<DevicePointer> sources;
    for (std::size_t member = 0; member < memory_->peers.size(); ++member) {
      sources.push_back(data_of(member, current()) + chunk.begin * size_of(dtype_));
    }
    const DevicePointer target = sources[rank()];
    stream().sum({sources, {&target, 1}, dtype_, chunk.size()}, tree_);
  }
  stream().record(reduced_);
  wake_engine();
}

void IpcBucket::copy_chunks_of_others() {
  const std::size_t num_members = memory_->peers.size();
  // Each begins with its neighbour, so that not all read from one GPU at the same time.
  for (std::size_t distance = 1; distance < num_members; ++distance) {
    const std::size_t member = (rank() + distance) % num_members;
    const Range chunk = chunk_of_member(member);
    const std::size_t begin = chunk.begin * size_of(dtype_);
    if (chunk.size() == 0) continue;
    stream().copy(data_of(rank(), current()) + begin, data_of(member, current()) + begin,
                  chunk.size() * size_of(dtype_));
  }
  mark_result();
}

std::vector<int> IpcBucket::missing() const {
  if (!has_begun() || phase_ == Phase::summing) return {};
  const Counter counter = phase_ == Phase::posted ? Counter::posted : Counter::reduced;
  return ranks_where(segment_->size(), [&](int member) {
    return member != segment_->rank() && !has_said(member, counter);
  });
}

Range IpcBucket::chunk_of_member(std::size_t member) const {
  return chunk_of(count_, dtype_, segment_->size(), static_cast<int>(member));
}

void IpcBucket::say(Counter counter) {
  for (int distance = 1; distance < segment_->size(); ++distance) {
    segment_->notify((segment_->rank() + distance) % segment_->size(),
                     layout_.first + static_cast<std::size_t>(counter), current() + 1);
  }
}

bool IpcBucket::has_said(int member, Counter counter) const {
  return segment_->poll(member, layout_.first + static_cast<std::size_t>(counter)) > current();
}

bool IpcBucket::have_all_said(Counter counter) const {
  for (int member = 0; member < segment_->size(); ++member) {
    if (member != segment_->rank() && !has_said(member, counter)) return false;
  }
  return true;
}

}  // namespace tnt::comm
