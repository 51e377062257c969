#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr const char* kHowToGetUcx =
    " UCX comes with `pip install \"tnt-comm[ucx]\"`, and with many clusters: then set"
    " TNT_UCX_LIBRARY to the path of its libucp.so.0.";
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
    constexpr std::array<std::pair<const char*, const char*>, 6> kSettings = {{
        {"UCX_MEM_EVENTS", "n"},            // else it patches the C library, in 400 ms
        {"UCX_HANDLE_ERRORS", "none"},      // else it takes SIGSEGV and others
        {"UCX_DEBUG_SIGNO", "0"},           // else SIGHUP
        {"UCX_LOG_FILE", "stderr"},         // else standard output
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

std::string ucx_folder_of_pkg_config() {
  const std::unique_ptr<FILE, int (*)(FILE*)> output(
      ::popen("pkg-config --variable=libdir ucx 2>/dev/null", "re"), ::pclose);
  std::array<char, 4096> line{};
  if (!output || std::fgets(line.data(), line.size(), output.get()) == nullptr) return {};
  std::string folder = line.data();
  while (!folder.empty() && (folder.back() == '\n' || folder.back() == ' ')) folder.pop_back();
  return folder;
}

template <typename Function>
void resolve_ucx(void* handle, const std::string& path, const char* name, Function& function) {
  void* address = ::dlsym(handle, name);
  if (address == nullptr) {
    throw Error(ErrorKind::comm, text("The library '", path, "' has no function ", name,
                                      ", so it is not a complete UCX.", kHowToGetUcx));
  }
  function = reinterpret_cast<Function>(address);
}

// LOCAL: names of other libraries must not meet those of UCX.
std::pair<void*, std::string> load_first(const std::vector<std::string>& paths,
                                         std::string& reasons) {
  for (const std::string& path : paths) {
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, path};
    reasons += text(reasons.empty() ? "" : "; ", ::dlerror());
  }
  return {nullptr, {}};
}

void check_version(UcxLibrary& library) {
  unsigned major = 0, release = 0;
  library.functions.get_version(&major, &library.minor, &release);
  library.version = text(major, ".", library.minor, ".", release);
  if (major == kMajor && library.minor >= kLeastMinor) return;
  throw Error(ErrorKind::comm, text("The UCX library '", library.path, "' is version ",
                                    library.version, ". Supported are ", kMajor, ".", kLeastMinor,
                                    " and later ", kMajor, ".x.", kHowToGetUcx));
}

}  // namespace

void set_ucx_wheel_folder(const std::string& folder) {
  wheel_folder() = folder;
}

std::vector<std::string> ucx_candidates(const std::string& stated_path) {
  if (!stated_path.empty()) return {stated_path};
  std::vector<std::string> result;
  if (!wheel_folder().empty()) result.push_back(text(wheel_folder(), "/", kUcxName));
  result.emplace_back(kUcxName);
  const std::string folder = ucx_folder_of_pkg_config();
  if (!folder.empty()) result.push_back(text(folder, "/", kUcxName));
  return result;
}

UcxLibrary open_ucx_library(const std::string& stated_path) {
  const LoadSettings settings;
  std::string reasons;
  const auto [handle, path] = load_first(ucx_candidates(stated_path), reasons);
  if (handle == nullptr) {
    const std::string what = stated_path.empty()
                                 ? std::string("No UCX library was found")
                                 : text("TNT_UCX_LIBRARY='", stated_path, "' cannot be loaded");
    throw Error(ErrorKind::comm, text(what, " (", reasons, ").", kHowToGetUcx));
  }
  UcxLibrary library{.path = path, .version = {}, .functions = {}};
  ucx::Functions& functions = library.functions;
  const auto find = [&, handle = handle, &path = path](const char* name, auto& function) {
    resolve_ucx(handle, path, name, function);
  };
  find("ucp_get_version", functions.get_version);
  check_version(library);
  find("ucp_config_read", functions.config_read);
  find("ucp_config_modify", functions.config_modify);
  find("ucp_config_release", functions.config_release);
  find("ucp_init_version", functions.init_version);
  find("ucp_worker_create", functions.worker_create);
  find("ucp_worker_get_address", functions.worker_get_address);
  find("ucp_worker_release_address", functions.worker_release_address);
  find("ucp_worker_get_efd", functions.worker_get_efd);
  find("ucp_worker_arm", functions.worker_arm);
  find("ucp_worker_progress", functions.worker_progress);
  find("ucp_worker_set_am_recv_handler", functions.worker_set_am_recv_handler);
  find("ucp_ep_create", functions.ep_create);
  find("ucp_worker_destroy", functions.worker_destroy);
  find("ucp_cleanup", functions.cleanup);
  find("ucp_ep_close_nbx", functions.ep_close_nbx);
  find("ucp_am_send_nbx", functions.am_send_nbx);
  find("ucp_request_free", functions.request_free);
  return library;
}

bool has_ucx_library(const std::string& stated_path) {
  const LoadSettings settings;
  std::string reasons;
  return load_first(ucx_candidates(stated_path), reasons).first != nullptr;
}

std::string meaning_of_ucx(ucx::Status status) {
  switch (status) {
    case -3:
      return "input/output error; raise the limit of open files (ulimit -n)?";
    case -4:
      return "out of memory";
    case -6:
      return "cannot be reached";
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
