#include "tnt/comm/trace/event_buffer.hpp"

#include <algorithm>
#include <new>

namespace tnt::comm {

EventBuffer::~EventBuffer() {
  for (auto& chunk : chunks_) delete chunk.load();
}

bool EventBuffer::add(const Event& event) noexcept {
  const std::uint64_t index = num_added_.fetch_add(1, std::memory_order_relaxed);
  if (index >= kCapacity) return false;
  Chunk* chunk = chunk_of(index);
  if (chunk == nullptr) {
    num_lost_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Slot& slot = (*chunk)[index % kChunk];
  slot.time_ns = event.time_ns;
  slot.value = event.value;
  slot.row = event.row;
  slot.name = event.name;
  slot.kind = event.kind;
  slot.is_written.store(true, std::memory_order_release);
  return true;
}

EventBuffer::Chunk* EventBuffer::chunk_of(std::size_t index) noexcept {
  std::atomic<Chunk*>& place = chunks_[index / kChunk];
  Chunk* chunk = place.load(std::memory_order_acquire);
  if (chunk != nullptr) return chunk;
  auto* fresh = new (std::nothrow) Chunk();
  if (fresh == nullptr || place.compare_exchange_strong(chunk, fresh)) return fresh;
  delete fresh;  // another thread was faster
  return chunk;
}

std::size_t EventBuffer::num_used() const noexcept {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(num_added_.load(std::memory_order_acquire), kCapacity));
}

std::uint64_t EventBuffer::num_dropped() const noexcept {
  const std::uint64_t num_added = num_added_.load(std::memory_order_relaxed);
  return num_lost_.load(std::memory_order_relaxed) +
         (num_added - std::min(num_added, std::uint64_t{kCapacity}));
}

}  // namespace tnt::comm
