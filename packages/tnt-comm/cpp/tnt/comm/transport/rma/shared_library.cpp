#include "tnt/comm/transport/rma/shared_library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <memory>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

std::optional<SharedLibrary> find_library(const std::vector<std::string>& paths,
                                          std::string& reasons) {
  for (const std::string& path : paths) {
    // LOCAL: GPI-2 exports names such as list_insert, for example.
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary{path, handle};
    }
    reasons += text(reasons.empty() ? "" : "; ", ::dlerror());
  }
  return std::nullopt;
}

SharedLibrary open_library(const LibraryNames& names, const std::vector<std::string>& paths,
                           const std::string& stated_path) {
  std::string reasons;
  if (auto library = find_library(paths, reasons)) return *library;
  const std::string what = stated_path.empty()
                               ? text("No ", names.engine, " library was found")
                               : text(names.variable, "='", stated_path, "' cannot be loaded");
  throw Error(ErrorKind::comm, text(what, " (", reasons, ").", names.how_to_get));
}

void* address_in(const SharedLibrary& library, const LibraryNames& names, const char* function) {
  if (void* address = ::dlsym(library.handle, function)) return address;
  throw Error(ErrorKind::comm,
              text("The library '", library.path, "' has no function ", function,
                   ", so it is not a complete ", names.engine, ".", names.how_to_get));
}

std::string folder_of_pkg_config(const char* package) {
  const std::string command = text("pkg-config --variable=libdir ", package, " 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 4096> line{};
  if (!output || std::fgets(line.data(), line.size(), output.get()) == nullptr) return {};
  std::string folder = line.data();
  while (!folder.empty() && (folder.back() == '\n' || folder.back() == ' ')) folder.pop_back();
  return folder;
}

}  // namespace tnt::comm
