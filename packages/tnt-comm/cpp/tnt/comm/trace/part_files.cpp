#include "tnt/comm/trace/part_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/trace/json.hpp"
#include "tnt/comm/trace/output_file.hpp"
#include "tnt/comm/trace/render.hpp"

namespace tnt::comm {
namespace {

constexpr double kLongestWaitForLockS = 5.0;

/// Lets one process of the job merge at a time. Held until destruction, or
/// until the process ends.
class MergeLock {
 public:
  explicit MergeLock(const std::string& path)
      : name_(path + ".lock"),
        file_(::open(name_.c_str(), O_CREAT | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ < 0) refuse_file(name_, "created");
    const Deadline deadline(kLongestWaitForLockS);
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK && !deadline.is_over()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      ::close(file_);
      refuse_file(name_, "locked");
    }
  }
  ~MergeLock() { ::close(file_); }
  MergeLock(const MergeLock&) = delete;
  MergeLock& operator=(const MergeLock&) = delete;

  void remove() { ::unlink(name_.c_str()); }

 private:
  std::string name_;
  int file_;
};

/// What a part says about its rank, as JSON object, and its events.
struct Part {
  std::string info;
  std::string lines;
};

std::optional<Part> read_part(const std::string& path) {
  // A link would be somebody else's: ranks put files in paths.
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path))) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::ostringstream content;
  content << stream.rdbuf();
  const std::string whole = std::move(content).str();
  const std::size_t info = whole.rfind(kInfoHead);
  if (!whole.starts_with(kTraceHead) || !whole.ends_with(kTraceTail) || info == std::string::npos) {
    return std::nullopt;
  }
  const std::size_t info_begin = info + kInfoHead.size();
  return Part{whole.substr(info_begin, whole.size() - kTraceTail.size() - info_begin),
              whole.substr(kTraceHead.size(), info - kTraceHead.size())};
}

// The number of ranks that a part of our own writing names.
int size_in(const std::string& info) {
  constexpr std::string_view kName = "\"size\":";
  int size = 1;
  const std::size_t begin = info.find(kName);
  if (begin == std::string::npos) return size;
  std::from_chars(info.data() + begin + kName.size(), info.data() + info.size(), size);
  return size;
}

std::string mark_of_absence(int rank, std::int64_t now_ns, const char* why) {
  return process_mark_event(rank, now_ns, text("no events of rank ", rank, ": ", why));
}

Part part_of_rank(const TracePaths& paths, int rank, std::int64_t now_ns) {
  std::optional<Part> part = read_part(part_path(paths.parts, rank));
  if (!part) {
    return {text(R"({"rank":)", rank, R"(,"state":"missing"})"),
            text(process_name_event(rank, text("rank ", rank, ": no trace")), kEventsSeparator,
                 mark_of_absence(rank, now_ns, "it wrote no file here"))};
  }
  if (part->info.find(R"("state":"started")") != std::string::npos) {
    part->lines +=
        text(kEventsSeparator,
             mark_of_absence(rank, now_ns, "it was ended from outside, or has not ended yet"));
  }
  return *std::move(part);
}

// Calls add(text) with all of the trace, block by block.
template <typename Add>
void join_parts(const TracePaths& paths, int num_ranks, std::int64_t now_ns, const Add& add) {
  std::string infos;
  add(kTraceHead);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Part part = part_of_rank(paths, rank, now_ns);
    infos += text(rank == 0 ? "" : ",", part.info);
    if (rank > 0) add(kEventsSeparator);
    add(part.lines);
  }
  add(kInfoHead);
  add(text(R"({"size":)", num_ranks, R"(,"ranks":[)", infos, "]}"));
  add(kTraceTail);
}

}  // namespace

std::string part_path(const std::string& parts, int rank) {
  return text(parts, ".rank", rank);
}

void write_atomically(const std::string& path, std::string_view text) {
  NewFile file(path);
  file.add(text);
  file.put_in_place();
}

void merge_parts(const TracePaths& paths, int num_ranks, std::int64_t now_ns, bool has_ended) {
  // What was written into a pipe cannot be replaced by a more complete trace.
  if (!paths.is_replaced && !has_ended) return;
  MergeLock lock(paths.parts);
  // The parts are gone if another rank, which thought itself the last one too,
  // has merged them in the meantime.
  bool has_parts = false;
  for (int rank = 0; rank < num_ranks; ++rank) {
    has_parts |= std::filesystem::exists(part_path(paths.parts, rank));
  }
  if (!has_parts) return lock.remove();

  const auto remove_parts = [&] {
    for (int rank = 0; rank < num_ranks; ++rank) ::unlink(part_path(paths.parts, rank).c_str());
    lock.remove();
  };
  if (paths.is_replaced) {
    NewFile file(paths.path);
    join_parts(paths, num_ranks, now_ns, [&](std::string_view text) { file.add(text); });
    file.put_in_place();
    if (has_ended) remove_parts();
    return;
  }
  try {
    OpenedFile file(paths.path);
    join_parts(paths, num_ranks, now_ns, [&](std::string_view text) { file.add(text); });
  } catch (const Error&) {
    remove_parts();  // nobody would look for them among temporary files
    throw;
  }
  remove_parts();
}

void merge_left_parts(const std::string& path) {
  const TracePaths paths = trace_paths(path, "");
  const std::filesystem::path parts = paths.parts;
  const std::string prefix = parts.filename().string() + ".rank";
  const std::filesystem::path folder = parts.parent_path();
  std::error_code no_folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, no_folder)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const std::optional<Part> part = read_part(entry.path().string());
    if (part) return merge_parts(paths, size_in(part->info), now_ns(), true);
  }
  throw UsageError(
      text("There is no part '", part_path(path, 0), "' or of another rank: nothing to merge."));
}

}  // namespace tnt::comm
