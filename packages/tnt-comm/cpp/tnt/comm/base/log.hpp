#pragma once

#include <string>

namespace tnt::comm {

enum class LogLevel : int { debug, info, warning, error };

/// The least level that is written; WARNING until it is set.
void set_log_level(LogLevel least);
bool is_logged(LogLevel level);

/// Writes one line to stderr if the level is logged, in one system call so that
/// the lines of several ranks do not mix.
void log(LogLevel level, int rank, const std::string& message);

inline void log_warning(int rank, const std::string& message) {
  log(LogLevel::warning, rank, message);
}

}  // namespace tnt::comm
