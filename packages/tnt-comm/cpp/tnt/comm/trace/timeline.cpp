#include "tnt/comm/trace/timeline.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

// The kernel's zeros are events that are not written.
EventBuffer::EventBuffer() : events_(static_cast<Event*>(std::calloc(kCapacity, sizeof(Event)))) {
  if (!events_) throw std::bad_alloc();
}

bool EventBuffer::add(const Event& event) noexcept {
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

std::uint64_t EventBuffer::num_dropped() const noexcept {
  const std::uint64_t num_added = num_added_.load(std::memory_order_relaxed);
  return num_added - std::min(num_added, std::uint64_t{kCapacity});
}

namespace {

// A thread's row, without a destructor: threads record until the very end.
struct ThreadRow {
  std::uint64_t timeline = 0;
  RowId row = 0;
};
thread_local ThreadRow thread_row;

// Programs may start threads without end.
constexpr std::size_t kMostThreads = 4096;

std::string name_of_this_thread(std::int64_t thread) {
  if (thread == ::getpid()) return "main thread";
  std::array<char, 16> name{};  // the longest that the system keeps
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

}  // namespace

NameId Timeline::name(std::string_view text) {
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

RowId Timeline::add_row(RowSpec spec) {
  const std::lock_guard lock(rows_mutex_);
  rows_.push_back(std::move(spec));
  return static_cast<RowId>(rows_.size() - 1);
}

RowId Timeline::row_of_this_thread() {
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

void Timeline::record(EventKind kind, RowId row, NameId name, std::uint64_t value) noexcept {
  if (events_.add({now_ns(), value, row, name, kind}) || has_warned_.exchange(true)) return;
  log_warning(rank_, text("the timeline (TNT_TIMELINE) is full after ", EventBuffer::kCapacity,
                          " events: what this rank does from now on is not in it."));
}

std::vector<RowSpec> Timeline::rows() const {
  const std::lock_guard lock(rows_mutex_);
  return rows_;
}

std::vector<std::string> Timeline::names() const {
  const std::shared_lock lock(names_mutex_);
  return names_;
}

namespace {

constexpr std::string_view kHead = "tnt-comm records 1\n";

static_assert(sizeof(Event) == 32 && std::is_trivially_copyable_v<Event>);

template <typename Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::string records_of(const Timeline& timeline, const RecordsOrigin& origin) {
  std::string out(kHead);
  put(out, std::int32_t{origin.rank});
  put(out, std::int32_t{origin.size});
  put(out, origin.clock.offset_ns);
  put(out, origin.clock.error_ns);
  put(out, now_ns());
  put(out, timeline.events().num_dropped());
  put_text(out, host_name());
  const std::vector<RowSpec> rows = timeline.rows();
  put(out, static_cast<std::uint32_t>(rows.size()));
  for (const RowSpec& row : rows) {
    put(out, row.thread);
    put(out, row.num_bytes);
    for (const std::string* text : {&row.title, &row.category, &row.value_name, &row.bucket}) {
      put_text(out, *text);
    }
  }
  const std::vector<std::string> names = timeline.names();
  put(out, static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) put_text(out, name);
  // Events of rows and names that are younger than this look at them come next time.
  timeline.events().for_each([&](const Event& event) {
    if (event.row < rows.size() && event.name < names.size()) put(out, event);
  });
  return out;
}

std::string records_path(const std::string& trace, int rank) {
  return text(trace, ".rank", rank);
}

void write_new_file(const std::string& path, const std::string& content) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
  std::size_t num_written = 0;
  ssize_t added = 0;
  while (file >= 0 && num_written < content.size() && (added >= 0 || errno == EINTR)) {
    added = ::write(file, content.data() + num_written, content.size() - num_written);
    if (added > 0) num_written += static_cast<std::size_t>(added);
  }
  const bool is_complete = file >= 0 && num_written == content.size();
  if (file >= 0 && ::close(file) == 0 && is_complete) return;
  throw Error(ErrorKind::comm,
              text("the file '", path, "' cannot be written: ", std::strerror(errno), "."));
}

}  // namespace tnt::comm
