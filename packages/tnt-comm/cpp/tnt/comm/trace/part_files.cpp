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
#include "tnt/comm/trace/render.hpp"

namespace tnt::comm {
namespace {

constexpr double kLongestWaitForLockS = 5.0;

[[noreturn]] void refuse(const std::string& path, const char* what) {
  throw Error(ErrorKind::comm,
              text("the file '", path, "' cannot be ", what, ": ", std::strerror(errno), "."));
}

/// A file that is written under another name and then put in place.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), name_(text(path, ".", ::getpid(), ".new")), stream_(name_, std::ios::binary) {
    if (!stream_) refuse(path_, "written");
  }
  ~NewFile() {
    if (!is_in_place_) ::unlink(name_.c_str());
  }
  std::ostream& stream() { return stream_; }

  void put_in_place() {
    stream_.close();
    if (!stream_ || std::rename(name_.c_str(), path_.c_str()) != 0) refuse(path_, "written");
    is_in_place_ = true;
  }

 private:
  std::string path_;
  std::string name_;
  std::ofstream stream_;
  bool is_in_place_ = false;
};

/// Lets one process of the job merge at a time. Held until destruction, or
/// until the process ends.
class MergeLock {
 public:
  explicit MergeLock(const std::string& path)
      : name_(path + ".lock"), file_(::open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ < 0) refuse(name_, "created");
    const Deadline deadline(kLongestWaitForLockS);
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK && !deadline.is_over()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      ::close(file_);
      refuse(name_, "locked");
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

Part part_of_rank(const std::string& path, int rank, std::int64_t now_ns) {
  std::optional<Part> part = read_part(part_path(path, rank));
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

}  // namespace

std::string part_path(const std::string& path, int rank) {
  return text(path, ".rank", rank);
}

void write_atomically(const std::string& path, const std::string& text) {
  NewFile file(path);
  file.stream() << text;
  file.put_in_place();
}

void merge_parts(const std::string& path, int num_ranks, std::int64_t now_ns, bool has_ended) {
  MergeLock lock(path);
  // The parts are gone if another rank, which thought itself the last one too,
  // has merged them in the meantime.
  bool has_parts = false;
  for (int rank = 0; rank < num_ranks; ++rank) {
    has_parts |= std::filesystem::exists(part_path(path, rank));
  }
  if (!has_parts) return lock.remove();

  std::string infos;
  NewFile file(path);
  file.stream() << kTraceHead;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Part part = part_of_rank(path, rank, now_ns);
    infos += text(rank == 0 ? "" : ",", part.info);
    file.stream() << (rank == 0 ? "" : kEventsSeparator) << part.lines;
  }
  file.stream() << kInfoHead << R"({"size":)" << num_ranks << R"(,"ranks":[)" << infos << "]}"
                << kTraceTail;
  file.put_in_place();
  if (!has_ended) return;
  for (int rank = 0; rank < num_ranks; ++rank) ::unlink(part_path(path, rank).c_str());
  lock.remove();
}

void merge_left_parts(const std::string& path) {
  const std::string prefix = std::filesystem::path(path).filename().string() + ".rank";
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code no_folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, no_folder)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const std::optional<Part> part = read_part(entry.path().string());
    if (part) return merge_parts(path, size_in(part->info), now_ns(), true);
  }
  throw UsageError(
      text("There is no part '", part_path(path, 0), "' or of another rank: nothing to merge."));
}

}  // namespace tnt::comm
