#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tnt::comm {

enum class EventKind : std::uint8_t {
  begin,    ///< of a slice; slices of a row are nested
  end,      ///< of the innermost open slice of that name
  state,    ///< the row is in this state until its next one
  instant,  ///< something that takes no time; ends the state of the row
};

/// One thing that happened.
struct Event {
  std::int64_t time_ns = 0;  ///< of Clock
  std::uint64_t value = 0;   ///< what the row says that it means: a step, bytes
  std::uint32_t row = 0;
  std::uint32_t name = 0;
  EventKind kind = EventKind::instant;
};

/// Events in the order in which they were added, up to a fixed number. When it
/// is full, later ones are counted and dropped: the begin of a run, with its
/// start-up, stays.
///
/// Adding takes one atomic addition and, once per several thousand events, an
/// allocation. Nobody ever waits for anybody. Events that one thread adds, or
/// that are otherwise ordered between threads, keep their order.
class EventBuffer {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 20;

  EventBuffer() = default;
  ~EventBuffer();
  EventBuffer(const EventBuffer&) = delete;
  EventBuffer& operator=(const EventBuffer&) = delete;

  /// False if it was dropped. Any thread.
  bool add(const Event& event) noexcept;

  std::uint64_t num_dropped() const noexcept;

  /// Calls `function(event)` for all events that have been added completely.
  /// May run while others add.
  template <typename Function>
  void for_each(Function&& function) const {
    for (std::size_t index = 0; index < num_used(); ++index) {
      const Chunk* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      const Slot& slot = (*chunk)[index % kChunk];
      if (slot.is_written.load(std::memory_order_acquire)) function(event_of(slot));
    }
  }

 private:
  // The fields of Event, side by side with the flag: two of them fit into a
  // cache line.
  struct Slot {
    std::int64_t time_ns;
    std::uint64_t value;
    std::uint32_t row;
    std::uint32_t name;
    EventKind kind;
    std::atomic<bool> is_written;
  };
  static constexpr std::size_t kChunk = 4096;
  using Chunk = std::array<Slot, kChunk>;

  static Event event_of(const Slot& slot) {
    return {slot.time_ns, slot.value, slot.row, slot.name, slot.kind};
  }
  std::size_t num_used() const noexcept;
  Chunk* chunk_of(std::size_t index) noexcept;

  std::atomic<std::uint64_t> num_added_{0};
  std::atomic<std::uint64_t> num_lost_{0};  // for want of memory
  std::array<std::atomic<Chunk*>, kCapacity / kChunk> chunks_{};
};

}  // namespace tnt::comm
