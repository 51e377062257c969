#include "tnt/comm/base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <string_view>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"DEBUG", "INFO", "WARNING", "ERROR"};

std::atomic<LogLevel> least_level{LogLevel::warning};

}  // namespace

void set_log_level(LogLevel least) {
  least_level.store(least);
}

bool is_logged(LogLevel level) {
  return level >= least_level.load(std::memory_order_relaxed);
}

void log(LogLevel level, int rank, const std::string& message) {
  if (!is_logged(level)) return;
  const std::string line =
      text(kNames[static_cast<std::size_t>(level)], " tnt-comm rank ", rank, ": ", message, "\n");
  // Nothing sensible can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tnt::comm
