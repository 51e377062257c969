#include "tnt/comm/base/log.hpp"

#include <unistd.h>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

void log_warning(int rank, const std::string& message) {
  const std::string line = text("WARNING tnt-comm rank ", rank, ": ", message, "\n");
  // Nothing sensible can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tnt::comm
