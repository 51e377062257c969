#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tnt/comm/trace/event_buffer.hpp"

namespace tnt::comm {

using RowId = std::uint32_t;
using NameId = std::uint32_t;

/// A row of the timeline: a thread, or something that many threads work on in
/// turn, such as a bucket.
struct RowSpec {
  std::string title;
  std::string category;     ///< of its events
  std::string value_name;   ///< what the events' value means, "" if nothing
  std::string arguments;    ///< of all its events: members of a JSON object, or ""
  std::int64_t thread = 0;  ///< the system's number of a thread, 0 for other rows
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
