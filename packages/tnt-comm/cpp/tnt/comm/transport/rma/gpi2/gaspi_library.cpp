#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr const char* kHowToGetIt =
    " GPI-2 is a library of its own that Tarantella does not contain. Build and install it as its"
    " README says (https://github.com/cc-hpc-itwm/GPI-2; shared library, Ethernet or InfiniBand"
    " device), then set TNT_GPI2_LIBRARY to the path of its libGPI2.so, or make pkg-config or the"
    " loader find it.";

std::string supported_versions() {
  std::string result;
  for (const GaspiLayout& layout : kGaspiLayouts) {
    result += text(result.empty() ? "" : " and ", layout.name);
  }
  return result;
}

// The folder that pkg-config names, or nothing.
std::string folder_of_pkg_config() {
  const std::unique_ptr<FILE, int (*)(FILE*)> output(
      ::popen("pkg-config --variable=libdir GPI2 2>/dev/null", "re"), ::pclose);
  std::array<char, 4096> line{};
  if (!output || std::fgets(line.data(), line.size(), output.get()) == nullptr) return {};
  std::string folder = line.data();
  while (!folder.empty() && (folder.back() == '\n' || folder.back() == ' ')) folder.pop_back();
  return folder;
}

std::vector<std::string> candidates(const std::string& stated_path) {
  if (!stated_path.empty()) return {stated_path};
  constexpr std::array kNames = {"libGPI2.so.0", "libGPI2.so"};
  std::vector<std::string> result;
  const std::string folder = folder_of_pkg_config();
  for (const char* name : kNames) {
    if (!folder.empty()) result.push_back(text(folder, "/", name));
  }
  result.insert(result.end(), kNames.begin(), kNames.end());
  return result;
}

GaspiLibrary open_first(const std::vector<std::string>& paths, const std::string& stated_path) {
  std::string reasons;
  for (const std::string& path : paths) {
    // LOCAL: GPI-2 exports names such as list_insert that must not meet those of others.
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      GaspiLibrary library;
      library.path = path;
      library.handle = handle;
      return library;
    }
    reasons += text(reasons.empty() ? "" : "; ", ::dlerror());
  }
  const std::string what = stated_path.empty()
                               ? std::string("No GPI-2 library was found")
                               : text("TNT_GPI2_LIBRARY='", stated_path, "' cannot be loaded");
  throw Error(ErrorKind::comm, text(what, " (", reasons, ").", kHowToGetIt));
}

template <typename Function>
void resolve(const GaspiLibrary& library, const char* name, Function& function) {
  void* address = ::dlsym(library.handle, name);
  if (address == nullptr) {
    throw Error(ErrorKind::comm, text("The library '", library.path, "' has no function ", name,
                                      ", so it is not a complete GPI-2.", kHowToGetIt));
  }
  function = reinterpret_cast<Function>(address);
}

const GaspiLayout& recognise(const GaspiLibrary& library) {
  GaspiFunctions::Status (*get_version)(float*) = nullptr;
  resolve(library, "gaspi_version", get_version);
  float version = 0;
  get_version(&version);
  for (const GaspiLayout& layout : kGaspiLayouts) {
    if (std::lround(version * 100) == layout.version) return layout;
  }
  throw Error(ErrorKind::comm,
              text("The GPI-2 library '", library.path, "' says that it is version ", version,
                   ". Supported are the versions ", supported_versions(),
                   ", because the memory layout of its settings differs between versions."
                   " Install one of these and set TNT_GPI2_LIBRARY to its libGPI2.so."));
}

}  // namespace

GaspiLibrary open_gaspi_library(const std::string& stated_path) {
  GaspiLibrary library = open_first(candidates(stated_path), stated_path);
  library.layout = &recognise(library);
  GaspiFunctions& functions = library.functions;
  resolve(library, "gaspi_proc_init", functions.proc_init);
  resolve(library, "gaspi_barrier", functions.barrier);
  resolve(library, "gaspi_segment_alloc", functions.segment_alloc);
  resolve(library, "gaspi_segment_ptr", functions.segment_ptr);
  resolve(library, "gaspi_segment_delete", functions.segment_delete);
  resolve(library, "gaspi_segment_register", functions.segment_register);
  resolve(library, "gaspi_write", functions.write);
  resolve(library, "gaspi_notify", functions.notify);
  resolve(library, "gaspi_notify_waitsome", functions.notify_waitsome);
  resolve(library, "gaspi_notify_reset", functions.notify_reset);
  resolve(library, "gaspi_wait", functions.wait);
  resolve(library, "gaspi_queue_size", functions.queue_size);
  resolve(library, "gaspi_state_vec_get", functions.state_vec_get);
  resolve(library, "gaspi_config_get", functions.config_get);
  return library;
}

}  // namespace tnt::comm
