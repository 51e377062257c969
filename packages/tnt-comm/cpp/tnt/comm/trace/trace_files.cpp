#include "tnt/comm/trace/trace_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "tnt/comm/base/deadline.hpp"

namespace tnt::comm {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows

// Of what is there itself, a link, too; none if it cannot be had.
std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

// In a folder where others may write, too, their links could lead to any file of this user.
void require_trusted_link(const fs::path& link) {
  const std::optional<struct stat> status = status_of(link);
  if (!status || status->st_uid == ::geteuid() || status->st_uid == 0) return;
  throw UsageError(text("the link '", link.string(), "' belongs to user ", status->st_uid,
                        ", and links of other users are not followed."));
}

// What a link leads to, also if that does not exist yet: a file that is put in
// paths of the link itself would end up elsewhere than the user asked for.
fs::path without_links(fs::path path) {
  for (int i = 0; fs::is_symlink(fs::symlink_status(path)); ++i) {
    if (i == kMostLinks) throw UsageError("it is a link that leads to itself.");
    require_trusted_link(path);
    path = path.parent_path() / fs::read_symlink(path);
  }
  return path;
}

}  // namespace

TracePaths trace_paths(const std::string& path, const std::string& job) {
  // The program may change its folder before the end.
  const fs::path named = fs::absolute(path);
  const std::string target = without_links(named).string();
  const fs::file_status status = fs::status(named);
  if (fs::is_directory(status)) throw UsageError("it is a folder.");
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    return {target, target, true};
  }
  // Under its name: what the link of a descriptor in /proc leads to, such as pipe:[3], is no path.
  const std::string parts = fs::temp_directory_path() / text("tnt-timeline-", job);
  return {named.string(), parts, false};
}

namespace {

constexpr int kLongestWaitMs = 5000;

// With the error of the last call of the system.
[[noreturn]] void refuse_file(const std::string& path, const char* what) {
  throw Error(ErrorKind::comm,
              text("the file '", path, "' cannot be ", what, ": ", std::strerror(errno), "."));
}

std::string random_name_beside(const std::string& path) {
  std::random_device random;
  return text(path, ".", std::hex, random(), "-", random(), ".new");
}

// Says when a file can take more bytes; not for ever, if nobody reads a pipe.
bool is_ready_in_time(int file) {
  pollfd wait{.fd = file, .events = POLLOUT, .revents = 0};
  int num_ready = 0;
  while ((num_ready = ::poll(&wait, 1, kLongestWaitMs)) < 0 && errno == EINTR) {
  }
  if (num_ready == 0) errno = ETIMEDOUT;
  return num_ready > 0;
}

/// An open file, which `path` names in errors. All functions throw CommError if it cannot be
/// opened or written, also where nobody reads a pipe for some seconds.
class File {
 public:
  File(const std::string& name, int flags, mode_t mode, std::string path, const char* what)
      : path_(std::move(path)), descriptor_(::open(name.c_str(), flags | O_CLOEXEC, mode)) {
    if (descriptor_ < 0) refuse_file(path_, what);
  }
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void add(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written >= 0) {
        text.remove_prefix(static_cast<std::size_t>(written));
      } else if (errno == EAGAIN ? !is_ready_in_time(descriptor_) : errno != EINTR) {
        refuse_file(path_, "written");
      }
    }
  }

  /// False if what was added is not there: some file systems tell only now that there was no room.
  bool close() { return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0; }

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

/// A file that is written as a whole or not at all: under another name, from which it
/// is put in place. What was there before stays until then; its mode is kept.
///
/// The other name cannot be guessed and is never one that is there already, so
/// that in a folder where others may write, too, no link of theirs is followed.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : name_(random_name_beside(path)),
        file_(name_, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0666, path, "written") {
    const std::optional<struct stat> old = status_of(path);
    if (old && S_ISREG(old->st_mode)) ::fchmod(file_.descriptor(), old->st_mode & 0777);
  }
  ~NewFile() {
    if (!is_in_place_) ::unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  File& file() { return file_; }

  void put_in_place() {
    is_in_place_ = file_.close() && std::rename(name_.c_str(), file_.path().c_str()) == 0;
    if (!is_in_place_) refuse_file(file_.path(), "written");
  }

 private:
  std::string name_;
  File file_;
  bool is_in_place_ = false;
};

constexpr double kLongestWaitForLockS = 5.0;

/// Lets one process of the job merge at a time. Held until destruction, or
/// until the process ends.
class MergeLock {
 public:
  explicit MergeLock(const std::string& parts)
      : name_(parts + ".ranks.lock"),
        file_(name_, O_CREAT | O_NOFOLLOW | O_RDWR, 0600, name_, "created") {
    const Deadline deadline(kLongestWaitForLockS);
    while (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK || deadline.is_over()) refuse_file(name_, "locked");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Not a file of the user that has this name.
  void remove() {
    const std::optional<struct stat> status = status_of(name_);
    if (status && status->st_size == 0) ::unlink(name_.c_str());
  }

 private:
  std::string name_;
  File file_;
};

/// What a part says about its rank, as JSON object, and its events.
struct Part {
  std::string info;
  std::string lines;
};

// Whether a file is one, perhaps a damaged one, and not the user's own. A link would be somebody
// else's: ranks put files in paths.
bool is_part(const std::string& path) {
  if (!fs::is_regular_file(fs::symlink_status(path))) return false;
  std::string head(kTraceHead.size(), '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), std::ssize(head));
  return head == kTraceHead;
}

std::optional<Part> read_part(const std::string& path) {
  if (!is_part(path)) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  const std::string whole = std::move(content).str();
  const std::size_t info = whole.rfind(kInfoHead);
  if (!whole.ends_with(kTraceTail) || info == std::string::npos) return std::nullopt;
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

Part part_of_rank(const TracePaths& paths, int rank, std::int64_t now_ns) {
  std::optional<Part> part = read_part(part_path(paths.parts, rank));
  const auto mark = [&](const char* why) {
    return process_mark_event(rank, now_ns, text("no events of rank ", rank, ": ", why));
  };
  if (!part) {
    return {text(R"({"rank":)", rank, R"(,"state":"missing"})"),
            text(process_name_event(rank, text("rank ", rank, ": no trace")), kEventsSeparator,
                 mark("it wrote no file here"))};
  }
  if (part->info.find(R"("state":"started")") != std::string::npos) {
    part->lines += text(kEventsSeparator, mark("it was ended from outside, or has not ended yet"));
  }
  return *std::move(part);
}

void join_parts(const TracePaths& paths, int num_ranks, std::int64_t now_ns, File& file) {
  std::string infos;
  file.add(kTraceHead);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Part part = part_of_rank(paths, rank, now_ns);
    infos += text(rank == 0 ? "" : ",", part.info);
    if (rank > 0) file.add(kEventsSeparator);
    file.add(part.lines);
  }
  file.add(kInfoHead);
  file.add(text(R"({"size":)", num_ranks, R"(,"ranks":[)", infos, "]}"));
  file.add(kTraceTail);
}

}  // namespace

std::string part_path(const std::string& parts, int rank) {
  return text(parts, ".rank", rank);
}

void require_place_for_part(const std::string& parts, int rank) {
  const std::string path = part_path(parts, rank);
  if (!status_of(path) || is_part(path)) return;
  throw UsageError(text("the file '", path, "', where this rank would write, is no part of a",
                        " timeline: move it away."));
}

void write_atomically(const std::string& path, std::string_view text) {
  NewFile target(path);
  target.file().add(text);
  target.put_in_place();
}

void merge_parts(const TracePaths& paths, int num_ranks, std::int64_t now_ns, bool has_ended) {
  // What was written into a pipe cannot be replaced by a more complete trace.
  if (!paths.is_replaced && !has_ended) return;
  MergeLock lock(paths.parts);
  // The parts are gone if another rank, which thought itself the last one too,
  // has merged them in the meantime.
  bool has_parts = false;
  for (int rank = 0; rank < num_ranks; ++rank) {
    has_parts |= is_part(part_path(paths.parts, rank));
  }
  if (!has_parts) return lock.remove();

  const auto remove_parts = [&] {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const std::string part = part_path(paths.parts, rank);
      if (is_part(part)) ::unlink(part.c_str());
    }
    lock.remove();
  };
  if (paths.is_replaced) {
    NewFile target(paths.path);
    join_parts(paths, num_ranks, now_ns, target.file());
    target.put_in_place();
  } else {
    try {
      // A device or a pipe, which stays what it is.
      File file(paths.path, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0, paths.path, "written");
      join_parts(paths, num_ranks, now_ns, file);
    } catch (const Error&) {
      remove_parts();  // nobody would look for them among temporary files
      throw;
    }
  }
  if (has_ended) remove_parts();
}

void merge_left_parts(const std::string& path) {
  const TracePaths paths = trace_paths(path, "");
  const fs::path parts = paths.parts;
  const std::string prefix = parts.filename().string() + ".rank";
  const fs::path folder = parts.parent_path();
  std::error_code no_folder;
  for (const auto& entry : fs::directory_iterator(folder, no_folder)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const std::optional<Part> part = read_part(entry.path().string());
    if (part) return merge_parts(paths, size_in(part->info), now_ns(), true);
  }
  throw UsageError(
      text("There is no part '", part_path(path, 0), "' or of another rank: nothing to merge."));
}

}  // namespace tnt::comm
