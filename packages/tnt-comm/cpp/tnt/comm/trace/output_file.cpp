#include "tnt/comm/trace/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr int kMostNames = 100;
constexpr int kLongestWaitMs = 5000;

std::string random_name_beside(const std::string& path) {
  std::random_device random;
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), ".%08x%08x.new", random(), random());
  return path + digits.data();
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

void write_all(int file, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN ? !is_ready_in_time(file) : errno != EINTR) {
      refuse_file(path, "written");
    }
  }
}

}  // namespace

void refuse_file(const std::string& path, const char* what) {
  throw Error(ErrorKind::comm,
              text("the file '", path, "' cannot be ", what, ": ", std::strerror(errno), "."));
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  for (int i = 0; i < kMostNames; ++i) {
    name_ = random_name_beside(path_);
    file_ = ::open(name_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
    if (file_ >= 0) return;
    if (errno != EEXIST) break;
  }
  refuse_file(path_, "written");
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(name_.c_str());
}

void NewFile::add(std::string_view text) {
  write_all(file_, path_, text);
}

void NewFile::put_in_place() {
  // Some file systems tell only now that there was no room.
  const bool is_whole = ::close(std::exchange(file_, -1)) == 0;
  if (is_whole && std::rename(name_.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(name_.c_str());
  errno = error;
  refuse_file(path_, "written");
}

OpenedFile::OpenedFile(std::string path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
  if (file_ < 0) refuse_file(path_, "written");
}

OpenedFile::~OpenedFile() {
  ::close(file_);
}

void OpenedFile::add(std::string_view text) {
  write_all(file_, path_, text);
}

}  // namespace tnt::comm
