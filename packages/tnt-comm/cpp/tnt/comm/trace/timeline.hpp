#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
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

struct Event {
  std::int64_t time_ns = 0;  ///< of Clock
  std::uint64_t value = 0;   ///< what the row says that it means: a step, bytes
  std::uint32_t row = 0;
  std::uint32_t name = 0;
  EventKind kind = EventKind::instant;
  bool is_written = false;  ///< by the buffer, when the others are there
};

/// Events in the order in which they were added, up to a fixed number. When it is full, later ones
/// are counted and dropped: the begin of a run, with its start-up, stays.
///
/// Adding takes one atomic addition, and touches memory that the kernel provides as it is used.
/// Nobody ever waits for anybody. Events that one thread adds, or
/// that are otherwise ordered between threads, keep their order.
class EventBuffer {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 20;

  /// std::bad_alloc if there is not so much memory.
  EventBuffer();

  /// False if it was dropped. Any thread.
  bool add(const Event& event) noexcept;

  std::uint64_t num_dropped() const noexcept;

  /// Calls `function(event)` for all events that have been added completely.
  /// May run while others add.
  template <typename Function>
  void for_each(Function&& function) const {
    const auto num_added = [this] { return num_added_.load(std::memory_order_acquire); };
    for (std::size_t index = 0; index < std::min<std::size_t>(num_added(), kCapacity); ++index) {
      Event& event = events_[index];
      if (std::atomic_ref(event.is_written).load(std::memory_order_acquire)) function(event);
    }
  }

 private:
  struct Free {
    void operator()(Event* events) const { std::free(events); }
  };

  std::atomic<std::uint64_t> num_added_{0};
  std::unique_ptr<Event[], Free> events_;
};

using RowId = std::uint32_t;
using NameId = std::uint32_t;

/// A row of the timeline: a thread, or something that many threads work on in
/// turn, such as a bucket.
struct RowSpec {
  std::string title = {};
  std::string category = {};    ///< of its events
  std::string value_name = {};  ///< what the events' value means, "" if nothing
  std::string bucket = {};      ///< whose row it is, "" for others
  std::uint64_t num_bytes = 0;  ///< of the bucket
  std::int64_t thread = 0;      ///< the system's number of a thread, 0 for other rows
};

/// What one rank did and when, kept in memory until somebody writes it down.
///
/// Exists only if it was asked for: whoever records asks for the pointer first,
/// and that is all that a run without a timeline pays.
///
/// Threads: all functions may be called from any thread. Recording an event
/// neither blocks nor allocates.
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

  void record(EventKind kind, RowId row, NameId name, std::uint64_t value = 0) noexcept;

  const EventBuffer& events() const { return events_; }
  std::vector<RowSpec> rows() const;
  std::vector<std::string> names() const;

 private:
  const int rank_;
  inline static std::atomic<std::uint64_t> num_timelines_{0};
  const std::uint64_t id_ =
      num_timelines_.fetch_add(1) + 1;  // tells timelines of one process apart (tests)
  EventBuffer events_;
  std::atomic<bool> has_warned_{false};

  mutable std::shared_mutex names_mutex_;
  std::unordered_map<std::string, NameId> name_ids_;
  std::vector<std::string> names_;

  mutable std::mutex rows_mutex_;
  std::vector<RowSpec> rows_;
  std::size_t num_threads_ = 0;
  RowId last_thread_row_ = 0;
};

/// How two clocks differ: the other one shows `offset_ns` more than this one,
/// give or take `error_ns`.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

struct RecordsOrigin {
  int rank = 0;
  int size = 1;       ///< of the job
  ClockOffset clock;  ///< rank 0's
};

/// All that a timeline holds, as bytes that `tnt_comm.timeline` makes a Chrome trace of
/// (see render.py there). May run while events are recorded.
std::string records_of(const Timeline& timeline, const RecordsOrigin& origin);

/// Where a rank leaves its records if no Python writes its part of the trace.
std::string records_path(const std::string& trace, int rank);

/// Writes a file, which must not be there yet. CommError if it cannot be written.
void write_new_file(const std::string& path, const std::string& content);

}  // namespace tnt::comm
