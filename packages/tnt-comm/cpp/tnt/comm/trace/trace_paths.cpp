#include "tnt/comm/trace/trace_paths.hpp"

#include <filesystem>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows

// What a link leads to, also if that does not exist yet: a file that is put in
// paths of the link itself would end up elsewhere than the user asked for.
fs::path without_links(fs::path path) {
  for (int i = 0; fs::is_symlink(fs::symlink_status(path)); ++i) {
    if (i == kMostLinks) throw UsageError("it is a link that leads to itself.");
    path = path.parent_path() / fs::read_symlink(path);
  }
  return path;
}

}  // namespace

TracePaths trace_paths(const std::string& path, const std::string& job) {
  // The program may change its folder before the end.
  const fs::path target = without_links(fs::absolute(path));
  const fs::file_status status = fs::status(target);
  if (fs::is_directory(status)) throw UsageError("it is a folder.");
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    return {target.string(), target.string(), true};
  }
  const fs::path parts = fs::temp_directory_path() / text("tnt-timeline-", job);
  return {target.string(), parts.string(), false};
}

}  // namespace tnt::comm
