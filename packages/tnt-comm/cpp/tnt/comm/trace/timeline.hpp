#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

using RowId = std::uint32_t;
using NameId = std::uint32_t;

/// A row of the timeline: a thread, or something that many threads work on in
/// turn, such as a bucket.
struct RowSpec {
  std::string title = {};
  std::string category = {};    ///< of its events
  std::string value_name = {};  ///< what the events' value means, "" if nothing
  std::string arguments = {};   ///< of all its events: members of a JSON object, or ""
  std::int64_t thread = 0;      ///< the system's number of a thread, 0 for other rows
};

/// What one rank did and when, kept in memory until somebody writes it down.
///
/// Exists only if it was asked for: whoever records asks for the pointer first,
/// and that is all that a run without a timeline pays.
///
/// Threads: all functions may be called from any thread. Recording an event
/// neither blocks nor allocates, save for what EventBuffer says.
class Timeline {
 public:
  explicit Timeline(int rank) : rank_(rank) {}

  /// The number of a name, for recording. Equal texts have equal numbers. There
  /// is room for kMostNames different ones; all others share one.
  NameId name(std::string_view text);
  static constexpr std::size_t kMostNames = 65536;

  RowId add_row(RowSpec spec);

  /// The row of the calling thread, which it keeps. After some thousand threads
  /// the others share one.
  RowId row_of_this_thread();

  void begin(RowId row, NameId name, std::uint64_t value = 0) noexcept {
    record(EventKind::begin, row, name, value);
  }
  void end(RowId row, NameId name) noexcept { record(EventKind::end, row, name, 0); }
  void enter(RowId row, NameId state, std::uint64_t value = 0) noexcept {
    record(EventKind::state, row, state, value);
  }
  void instant(RowId row, NameId name, std::uint64_t value = 0) noexcept {
    record(EventKind::instant, row, name, value);
  }

  // To write it down.
  int rank() const { return rank_; }
  const EventBuffer& events() const { return events_; }
  std::vector<RowSpec> rows() const;
  std::vector<std::string> names() const;

 private:
  RowId add_thread_row(std::int64_t thread);
  void record(EventKind kind, RowId row, NameId name, std::uint64_t value) noexcept;

  const int rank_;
  const std::uint64_t id_ = next_id();  // tells timelines of one process apart (tests)
  EventBuffer events_;
  std::atomic<bool> has_warned_{false};

  mutable std::shared_mutex names_mutex_;
  std::unordered_map<std::string, NameId> name_ids_;
  std::vector<std::string> names_;

  mutable std::mutex rows_mutex_;
  std::vector<RowSpec> rows_;
  std::size_t num_threads_ = 0;
  RowId last_thread_row_ = 0;

  static std::uint64_t next_id();
};

}  // namespace tnt::comm
