#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"

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
  LoadSettings(const LoadSettings&) = delete;
  LoadSettings& operator=(const LoadSettings&) = delete;

 private:
  std::vector<const char*> set_;
};

void check_version(UcxLibrary& library) {
  unsigned major = 0, release = 0;
  library.functions.get_version(&major, &library.minor, &release);
  library.version = text(major, ".", library.minor, ".", release);
  if (major == kMajor && library.minor >= kLeastMinor) return;
  throw Error(ErrorKind::comm, text("The UCX library '", library.path, "' is version ",
                                    library.version, ". Supported are ", kMajor, ".", kLeastMinor,
                                    " and later ", kMajor, ".x.", kUcx.how_to_get));
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
  ucx::Functions& functions = library.functions;
  resolve(library, kUcx, "ucp_get_version", functions.get_version);
  check_version(library);
  resolve(library, kUcx, "ucp_config_read", functions.config_read);
  resolve(library, kUcx, "ucp_config_modify", functions.config_modify);
  resolve(library, kUcx, "ucp_config_release", functions.config_release);
  resolve(library, kUcx, "ucp_init_version", functions.init_version);
  resolve(library, kUcx, "ucp_worker_create", functions.worker_create);
  resolve(library, kUcx, "ucp_worker_get_address", functions.worker_get_address);
  resolve(library, kUcx, "ucp_worker_release_address", functions.worker_release_address);
  resolve(library, kUcx, "ucp_worker_get_efd", functions.worker_get_efd);
  resolve(library, kUcx, "ucp_worker_arm", functions.worker_arm);
  resolve(library, kUcx, "ucp_worker_progress", functions.worker_progress);
  resolve(library, kUcx, "ucp_worker_set_am_recv_handler", functions.worker_set_am_recv_handler);
  resolve(library, kUcx, "ucp_ep_create", functions.ep_create);
  resolve(library, kUcx, "ucp_worker_destroy", functions.worker_destroy);
  resolve(library, kUcx, "ucp_cleanup", functions.cleanup);
  resolve(library, kUcx, "ucp_ep_close_nbx", functions.ep_close_nbx);
  resolve(library, kUcx, "ucp_am_send_nbx", functions.am_send_nbx);
  resolve(library, kUcx, "ucp_mem_map", functions.mem_map);
  resolve(library, kUcx, "ucp_mem_unmap", functions.mem_unmap);
  resolve(library, kUcx, "ucp_rkey_pack", functions.rkey_pack);
  resolve(library, kUcx, "ucp_rkey_buffer_release", functions.rkey_buffer_release);
  resolve(library, kUcx, "ucp_ep_rkey_unpack", functions.ep_rkey_unpack);
  resolve(library, kUcx, "ucp_rkey_destroy", functions.rkey_destroy);
  resolve(library, kUcx, "ucp_put_nbx", functions.put_nbx);
  resolve(library, kUcx, "ucp_ep_flush_nbx", functions.ep_flush_nbx);
  resolve(library, kUcx, "ucp_request_free", functions.request_free);
  return library;
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
  const auto found = find_library(ucx_candidates(stated_path), reasons);
  return found ? std::optional(complete_ucx(*found)) : std::nullopt;
}

bool has_verbs_devices(const UcxLibrary& library) {
  ucx::ComponentFunctions functions{};
  try {  // libucp has them from libuct, unless somebody has linked both into one
    resolve(library, kUcx, "uct_query_components", functions.query_components);
    resolve(library, kUcx, "uct_component_query", functions.component_query);
    resolve(library, kUcx, "uct_release_component_list", functions.release_component_list);
  } catch (const Error&) {
    return false;
  }
  ucx::Component* components = nullptr;
  unsigned num_components = 0;
  if (functions.query_components(&components, &num_components) != ucx::kOk) return false;
  const bool result = std::any_of(components, components + num_components, [&](auto component) {
    ucx::ComponentAttributes attributes{};
    attributes.mask =
        ucx::ComponentAttributes::kHasName | ucx::ComponentAttributes::kHasNumResources;
    return functions.component_query(component, &attributes) == ucx::kOk &&
           std::string_view(attributes.name.data()) == "ib" && attributes.num_resources > 0;
  });
  functions.release_component_list(components);
  return result;
}

void require_ok(const UcxLibrary& library, int rank, ucx::Status status, const std::string& what) {
  if (status == ucx::kOk) return;
  const std::string settings = settings_of_user();
  throw Error(
      ErrorKind::comm,
      text("rank ", rank, ": ", what, " of UCX ", library.version, " returned ", int{status}, " (",
           meaning_of_ucx(status), "). ",
           settings.empty() ? "" : text("The environment sets ", settings, ": is that right? "),
           "UCX_LOG_LEVEL=error shows what UCX says of it."));
}

std::string meaning_of_ucx(ucx::Status status) {
  switch (status) {
    case -3:
      return "input/output error; raise the limit of open files (ulimit -n)?";
    case -4:
      return "out of memory";
    case -6:
      return "cannot be reached; see TNT_INTERFACE";
    case -14:
      return "no such network device; see TNT_INTERFACE";
    case -20:
      return "time is over";
    case -25:
      return "connection reset";
    case -80:
      return "no answer";
    default:
      return "error";
  }
}

}  // namespace tnt::comm
