#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tnt/comm/base/waiting.hpp"

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
  // The kernel's zeros are events that are not written.
  EventBuffer() : events_(static_cast<Event*>(std::calloc(kCapacity, sizeof(Event)))) {
    if (!events_) throw std::bad_alloc();
  }

  /// False if it was dropped. Any thread.
  bool add(const Event& event) noexcept {
    const std::uint64_t index = num_added_.fetch_add(1, std::memory_order_relaxed);
    if (index >= kCapacity) return false;
    // Others may look whether it is written, which a copy of all would touch.
    Event& target = events_[index];
    target.time_ns = event.time_ns;
    target.value = event.value;
    target.row = event.row;
    target.name = event.name;
    target.kind = event.kind;
    std::atomic_ref(target.is_written).store(true, std::memory_order_release);
    return true;
  }

  std::uint64_t num_dropped() const noexcept {
    const std::uint64_t num_added = num_added_.load(std::memory_order_relaxed);
    return num_added - std::min(num_added, std::uint64_t{kCapacity});
  }

  /// Calls `function(event)` for all events that were added completely. May run while others add.
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

/// A row of the timeline: a thread, or what many threads work on in turn, such as a bucket.
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
/// Threads: any, for all functions. Recording an event neither blocks nor allocates.
class Timeline {
 public:
  explicit Timeline(int rank) : rank_(rank) {}

  /// The number of a name, for recording. Equal texts have equal numbers. There
  /// is room for kMostNames different ones; all others share one.
  NameId name(std::string_view text) {
    {
      const std::shared_lock lock(names_mutex_);
      const auto found = name_ids_.find(std::string(text));
      if (found != name_ids_.end()) return found->second;
    }
    const std::unique_lock lock(names_mutex_);
    if (names_.size() >= kMostNames) text = "(too many different names)";
    const auto [entry, is_new] =
        name_ids_.try_emplace(std::string(text), static_cast<NameId>(names_.size()));
    if (is_new) names_.emplace_back(text);
    return entry->second;
  }

  static constexpr std::size_t kMostNames = 65536;

  RowId add_row(RowSpec spec) {
    const std::lock_guard lock(rows_mutex_);
    rows_.push_back(std::move(spec));
    return static_cast<RowId>(rows_.size() - 1);
  }

  /// The row of the calling thread, which it keeps. After some thousand threads, they share one.
  RowId row_of_this_thread() {
    // Without a destructor: threads record until the very end.
    struct ThreadRow {
      std::uint64_t timeline = 0;
      RowId row = 0;
    };
    thread_local ThreadRow thread_row;
    constexpr std::size_t kMostThreads = 4096;  // programs may start threads without end
    if (thread_row.timeline == id_) return thread_row.row;
    const std::int64_t thread = ::syscall(SYS_gettid);
    RowSpec spec{.title = name_of_this_thread(thread), .category = "thread", .thread = thread};
    const std::lock_guard lock(rows_mutex_);
    if (num_threads_ < kMostThreads) {
      rows_.push_back(std::move(spec));
      ++num_threads_;
      last_thread_row_ = static_cast<RowId>(rows_.size() - 1);
    }
    thread_row = {id_, last_thread_row_};
    return thread_row.row;
  }

  void record(EventKind kind, RowId row, NameId name, std::uint64_t value = 0) noexcept {
    if (events_.add({now_ns(), value, row, name, kind}) || has_warned_.exchange(true)) return;
    log_warning(rank_, "the timeline (TNT_TIMELINE) is full after ", EventBuffer::kCapacity,
                " events: what this rank does from now on is not in it. [timeline-full]");
  }

  const EventBuffer& events() const { return events_; }

  std::vector<RowSpec> rows() const {
    const std::lock_guard lock(rows_mutex_);
    return rows_;
  }

  std::vector<std::string> names() const {
    const std::shared_lock lock(names_mutex_);
    return names_;
  }

 private:
  static std::string name_of_this_thread(std::int64_t thread) {
    if (thread == ::getpid()) return "main thread";
    std::array<char, 16> name{};  // the longest that the system keeps
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return name.data();
  }

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

/// How two clocks differ: the other shows `offset_ns` more than this one, give or take `error_ns`.
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
