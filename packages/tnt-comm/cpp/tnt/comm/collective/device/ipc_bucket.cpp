#include "tnt/comm/collective/device/ipc_bucket.hpp"

#include "tnt/comm/collective/slot_ring.hpp"

namespace tnt::comm {

IpcBucket::IpcBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
                     const std::shared_ptr<DeviceWork>& work, Host host, const Layout& layout,
                     std::unique_ptr<ChunkExchange> exchange)
    : DeviceBucket(std::move(abort_state), spec, work),
      dtype_(spec.dtype),
      count_(spec.count),
      host_(std::move(host)),
      layout_(layout),
      exchange_(std::move(exchange)),
      chunk_is_there_(work->device) {}

void IpcBucket::fail(const Error& error) {
  if (exchange_) exchange_->fail(error);
  DeviceBucket::fail(error);
}

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
      if (!chunk_is_there_.is_complete()) return Progress::pending;
      if (exchange_) {
        exchange_->post();
        phase_ = Phase::exchanging;
        return Progress::advanced;
      }
      break;
    case Phase::exchanging: {
      const Progress progress = exchange_->advance();
      if (progress != Progress::done) return progress;
      exchange_->hand_out(summing(), own_chunk(), current());
      mark_chunk();
      phase_ = Phase::taking;
      return Progress::advanced;
    }
    case Phase::taking:
      if (!chunk_is_there_.is_complete()) return Progress::pending;
      break;
    case Phase::reduced:
      if (!have_all_said(Counter::reduced)) return Progress::pending;
      copy_chunks_of_others();
      return Progress::done;
  }
  say(Counter::reduced);
  phase_ = Phase::reduced;
  return Progress::advanced;
}

void IpcBucket::sum_chunk() {
  const Range chunk = chunk_of_member(rank());
  std::vector<DevicePointer> sources;
  for (std::size_t member = 0; member < size(); ++member) {
    sources.push_back(data_of(member, current()) + chunk.begin * size_of(dtype_));
  }
  if (exchange_) {
    exchange_->pack(summing(), sources, host_.tree, current());
  } else if (chunk.size() > 0) {
    const DevicePointer target = own_chunk();
    summing().sum({sources, {&target, 1}, dtype_, chunk.size()}, host_.tree);
  }
  mark_chunk();
}

void IpcBucket::mark_chunk() {
  summing().record(chunk_is_there_);
  wake_engine(summing());
}

DevicePointer IpcBucket::own_chunk() const {
  return data_of(rank(), current()) + chunk_of_member(rank()).begin * size_of(dtype_);
}

void IpcBucket::copy_chunks_of_others() {
  // Each begins with its neighbour, so that not all read from one GPU at the same time.
  for (std::size_t distance = 1; distance < size(); ++distance) {
    const std::size_t member = (rank() + distance) % size();
    const Range chunk = chunk_of_member(member);
    const std::size_t begin = chunk.begin * size_of(dtype_);
    if (chunk.size() == 0) continue;
    summing().copy(data_of(rank(), current()) + begin, data_of(member, current()) + begin,
                   chunk.size() * size_of(dtype_));
  }
  mark_result(summing());
  host_.memory->count_queued();
  summing().call([memory = host_.memory] { memory->say_copied(); });
}

std::vector<int> IpcBucket::missing() const {
  if (has_begun() && phase_ == Phase::exchanging) return exchange_->missing();
  if (!has_begun() || phase_ == Phase::summing || phase_ == Phase::taking) return {};
  const Counter counter = phase_ == Phase::posted ? Counter::posted : Counter::reduced;
  std::vector<int> members = ranks_where(segment().size(), [&](int member) {
    return member != segment().rank() && !has_said(member, counter);
  });
  for (int& member : members) member += host_.first_member;
  return members;
}

Range IpcBucket::chunk_of_member(std::size_t member) const {
  return chunk_of(count_, dtype_, segment().size(), static_cast<int>(member));
}

void IpcBucket::say(Counter counter) {
  for (int distance = 1; distance < segment().size(); ++distance) {
    segment().notify((segment().rank() + distance) % segment().size(),
                     layout_.first + static_cast<std::size_t>(counter), current() + 1);
  }
}

bool IpcBucket::has_said(int member, Counter counter) const {
  return segment().poll(member, layout_.first + static_cast<std::size_t>(counter)) > current();
}

bool IpcBucket::have_all_said(Counter counter) const {
  for (int member = 0; member < segment().size(); ++member) {
    if (member != segment().rank() && !has_said(member, counter)) return false;
  }
  return true;
}

}  // namespace tnt::comm
