#pragma once

#include <string>

namespace tnt::comm {

/// Writes one WARNING line to stderr, in one system call so that the lines of
/// several ranks do not mix.
void log_warning(int rank, const std::string& message);

}  // namespace tnt::comm
