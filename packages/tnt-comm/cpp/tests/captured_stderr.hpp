#pragma once

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace tnt::comm::tests {

/// Keeps what this process writes to stderr, which can be read at any time.
///
/// Threads: `text` may be called from any thread.
class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()), stderr_(::dup(STDERR_FILENO)) {
    if (file_ == nullptr || stderr_ < 0 || ::dup2(::fileno(file_), STDERR_FILENO) < 0) {
      throw std::runtime_error("stderr cannot be captured");
    }
  }

  ~CapturedStderr() {
    ::dup2(stderr_, STDERR_FILENO);
    ::close(stderr_);
    std::fclose(file_);
  }

  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() const {
    std::string result;
    char bytes[4096];
    // Reads at a place of its own, so that what is written later is appended.
    for (ssize_t count = 0; (count = ::pread(::fileno(file_), bytes, sizeof(bytes),
                                             static_cast<off_t>(result.size()))) > 0;) {
      result.append(bytes, static_cast<std::size_t>(count));
    }
    return result;
  }

 private:
  std::FILE* file_;
  int stderr_;
};

}  // namespace tnt::comm::tests
