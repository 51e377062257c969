#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tnt::comm {
namespace {

constexpr LibraryNames kUcx = {
    "UCX", "TNT_UCX_LIBRARY",
    " UCX comes with `pip install \"tnt-comm[ucx]\"`, and with many clusters: then set"
    " TNT_UCX_LIBRARY to the path of its libucp.so.0."};
constexpr const char* kUcxName = "libucp.so.0";

// Known to work are all from Debian 12's on; the major number is that of the interface.
constexpr unsigned kMajor = 1;
constexpr unsigned kLeastMinor = 13;

std::string& wheel_folder() {
  static std::string folder;
  return folder;
}

// Sets variables that UCX reads when it is loaded, and takes those back that it has set.
class LoadSettings {
 public:
  LoadSettings() {
    constexpr std::array<std::pair<const char*, const char*>, 7> kSettings = {{
        {"UCX_MEM_EVENTS", "n"},            // else it patches the C library, in 400 ms
        {"UCX_HANDLE_ERRORS", "none"},      // else it takes SIGSEGV and others
        {"UCX_DEBUG_SIGNO", "0"},           // else SIGHUP
        {"UCX_LOG_FILE", "stderr"},         // else standard output
        {"UCX_LOG_LEVEL", "fatal"},         // what fails is told by errors of this library
        {"UCX_WARN_UNUSED_ENV_VARS", "n"},  // some of these are not known to all versions
        {"UCX_MODULES", "^cuda,cma"},       // a job on processors needs no libraries of GPUs
    }};
    for (const auto& [name, value] : kSettings) {
      if (std::getenv(name) != nullptr) continue;
      ::setenv(name, value, 1);
      set_.push_back(name);
    }
  }
  ~LoadSettings() {
    for (const char* name : set_) ::unsetenv(name);
  }
  LoadSettings(LoadSettings&&) = delete;

 private:
  std::vector<const char*> set_;
};

void check_version(UcxLibrary& library, decltype(ucx::Functions::get_version) get_version) {
  unsigned major = 0, release = 0;
  get_version(&major, &library.minor, &release);
  library.version = text(major, ".", library.minor, ".", release);
  if (major == kMajor && library.minor >= kLeastMinor) return;
  throw Error(ErrorKind::comm, "The UCX library '", library.path, "' is version ", library.version,
              ". Supported are ", kMajor, ".", kLeastMinor, " and later ", kMajor, ".x.",
              kUcx.how_to_get);
}

std::vector<std::string> ucx_candidates(const std::string& stated_path) {
  if (!stated_path.empty()) return {stated_path};
  std::vector<std::string> result;
  if (!wheel_folder().empty()) result.push_back(text(wheel_folder(), "/", kUcxName));
  result.emplace_back(kUcxName);
  const std::string folder = folder_of_pkg_config("ucx");
  if (!folder.empty()) result.push_back(text(folder, "/", kUcxName));
  return result;
}

// "UCX_TLS='tcp', UCX_NET_DEVICES='lo'"
std::string settings_of_user() {
  constexpr std::string_view kPrefix = "UCX_";
  std::string result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view setting(*variable);
    const std::size_t end = setting.find('=');
    if (!setting.starts_with(kPrefix) || end == std::string_view::npos) continue;
    result += text(result.empty() ? "" : ", ", setting.substr(0, end), "='",
                   setting.substr(end + 1), "'");
  }
  return result;
}

UcxLibrary complete_ucx(const SharedLibrary& found) {
  UcxLibrary library{found, {}, {}, {}};
  check_version(library, found["ucp_get_version"]);
  library.functions = {.from = found};
  return library;
}

namespace fs = std::filesystem;

// The kernel's words. Adapters of iWARP have ports of Ethernet too, and are no channel adapters.
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

constexpr std::size_t kHeaderRoom = 4096;

bool is_set_by_user(const char* name) {
  return std::getenv(text("UCX_", name).c_str()) != nullptr;
}

// UCX does not use bridges of virtual machines and containers, unless it is told to.
bool is_bridge(const std::string& interface) {
  return !interface.empty() &&
         ::access(text("/sys/class/net/", interface, "/bridge").c_str(), F_OK) == 0;
}

std::string devices_of(const UcxNetwork& network) {
  std::string result = network.interface;
  for (const std::string& port : network.ports) result += text(",", port);
  return result;
}

}  // namespace

void set_ucx_wheel_folder(const std::string& folder) {
  wheel_folder() = folder;
}

UcxLibrary open_ucx_library(const std::string& stated_path) {
  const LoadSettings settings;
  return complete_ucx(open_library(kUcx, ucx_candidates(stated_path), stated_path));
}

std::optional<UcxLibrary> find_ucx_library(const std::string& stated_path) {
  const LoadSettings settings;
  std::string reasons;
  const auto found = find_library(kUcx, ucx_candidates(stated_path), reasons);
  return found ? std::optional(complete_ucx(*found)) : std::nullopt;
}

bool has_verbs_devices(const UcxLibrary& library) {
  std::optional<ucx::ComponentFunctions> functions;
  try {  // libucp has them from libuct, unless somebody has linked both into one
    functions = ucx::ComponentFunctions{.from = library};
  } catch (const Error&) {
    return false;
  }
  ucx::Component* components = nullptr;
  unsigned num_components = 0;
  if (functions->query_components(&components, &num_components) != ucx::kOk) return false;
  const bool result = std::any_of(components, components + num_components, [&](auto component) {
    ucx::ComponentAttributes attributes{};
    attributes.mask =
        ucx::ComponentAttributes::kHasName | ucx::ComponentAttributes::kHasNumResources;
    return functions->component_query(component, &attributes) == ucx::kOk &&
           std::string_view(attributes.name.data()) == "ib" && attributes.num_resources > 0;
  });
  functions->release_component_list(components);
  return result;
}

void require_ok(const UcxLibrary& library, int rank, ucx::Status status, const std::string& what) {
  if (status == ucx::kOk) return;
  const std::string settings = settings_of_user();
  throw Error(ErrorKind::comm, "rank ", rank, ": ", what, " of UCX ", library.version, " returned ",
              int{status}, " (", meaning_of_ucx(status), "). ",
              settings.empty() ? "" : text("The environment sets ", settings, ": is that right? "),
              "UCX_LOG_LEVEL=error shows what UCX says about it.");
}

std::string meaning_of_ucx(ucx::Status status) {
  constexpr std::pair<int, const char*> kMeanings[] = {
      {-3, "input/output error; raise the limit of open files (ulimit -n)?"},
      {-4, "out of memory"},
      {-6, "cannot be reached; see TNT_INTERFACE"},
      {-14, "no such network device; see TNT_INTERFACE"},
      {-20, "timed out"},
      {-25, "connection reset"},
      {-80, "no answer"}};
  for (const auto& [known, meaning] : kMeanings) {
    if (known == status) return meaning;
  }
  return "error";
}

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

UcxNetwork choose_network(RdmaUse use, const std::string& interface,
                          const std::function<std::vector<std::string>()>& find_ports) {
  UcxNetwork network{interface, use == RdmaUse::on, {}};
  const bool is_left_to_user = is_set_by_user("TLS") || is_set_by_user("NET_DEVICES");
  if (use == RdmaUse::off || is_left_to_user) return network;
  network.ports = find_ports();
  if (!network.ports.empty()) network.has_rdma = true;
  return network;
}

std::vector<std::string> usable_ports(const std::string& interface, const UcxLibrary& library) {
  std::vector<std::string> ports = active_verbs_ports(interface);
  if (!ports.empty() && !has_verbs_devices(library)) ports.clear();
  return ports;
}

void apply_settings(const UcxLibrary& library, const UcxNetwork& network, ucx::Config* config) {
  const auto set = [&](const char* name, const std::string& value) {
    // Unknown ones are no matter.
    if (!is_set_by_user(name)) library.functions.config_modify(config, name, value.c_str());
  };
  // The name for all transports of InfiniBand and RoCE.
  set("TLS", network.ports.empty() ? "tcp" : "ib,tcp");
  // One with the same address on all hosts, as of containers, would be chosen otherwise.
  if (!network.interface.empty()) set("NET_DEVICES", devices_of(network));
  set("MAX_EAGER_RAILS", "1");
  // 1.13 takes no settings of a transport here, and warns of them; before 1.16 bridges are used.
  if (library.minor >= 14) {
    set("TCP_CONN_NB", "y");  // else connecting to one blocks all
    // Of whole messages.
    set("TCP_RX_SEG_SIZE", text(UcxNetwork::kMostMessageBytes + kHeaderRoom));
  }
  if (library.minor >= 16 && is_bridge(network.interface)) set("TCP_BRIDGE_ENABLE", "y");
}

}  // namespace tnt::comm
