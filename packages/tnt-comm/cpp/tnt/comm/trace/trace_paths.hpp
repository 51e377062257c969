#pragma once

#include <string>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// Where a trace is written, and where the parts of ranks lie until they are joined.
struct TracePaths {
  std::string path;   ///< absolute; a link has been followed
  std::string parts;  ///< begin of the parts' names
  /// A regular file, or none yet, which the whole trace replaces. Otherwise a
  /// device or a pipe, which is written to and stays what it is.
  bool is_replaced = true;
};

/// The paths that a path names. Parts are beside a regular file, and in the
/// folder for temporary files for anything else; `job` then tells those of
/// different jobs apart. UsageError if the path is a folder or a link to itself.
TracePaths trace_paths(const std::string& path, const std::string& job);

}  // namespace tnt::comm
