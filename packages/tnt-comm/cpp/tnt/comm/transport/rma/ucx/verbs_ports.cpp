#include "tnt/comm/transport/rma/ucx/verbs_ports.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace tnt::comm {
namespace {

namespace fs = std::filesystem;

// The kernel's words. Adapters of iWARP have ports of Ethernet as well, and are no channel
// adapters.
constexpr const char* kActive = "4: ACTIVE";
constexpr const char* kChannelAdapter = "1: CA";

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Empty for a folder that is not there.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    result.push_back(entry->path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool belongs_to(const fs::path& adapter, const std::string& interface, const fs::path& sysfs) {
  std::error_code error;
  return !interface.empty() &&
         fs::exists(sysfs / "class/net" / interface / "device/infiniband" / adapter.filename(),
                    error);
}

}  // namespace

std::vector<std::string> active_verbs_ports(const std::string& interface, const fs::path& sysfs) {
  std::vector<std::string> result;
  for (const fs::path& adapter : entries_of(sysfs / "class/infiniband")) {
    if (first_line(adapter / "node_type") != kChannelAdapter) continue;
    for (const fs::path& port : entries_of(adapter / "ports")) {
      if (first_line(port / "state") != kActive) continue;
      const std::string link_layer = first_line(port / "link_layer");
      const bool is_roce = link_layer == "Ethernet" && belongs_to(adapter, interface, sysfs);
      if (link_layer != "InfiniBand" && !is_roce) continue;
      result.push_back(adapter.filename().string() + ":" + port.filename().string());
    }
  }
  return result;
}

}  // namespace tnt::comm
