#include "tnt/comm/base/shared_library.hpp"

#include <dlfcn.h>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

std::optional<SharedLibrary> find_library(const LibraryNames& names,
                                          const std::vector<std::string>& paths,
                                          std::string& reasons) {
  for (const std::string& path : paths) {
    // LOCAL: GPI-2 exports names such as list_insert, for example.
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary{path, handle, &names};
    }
    reasons += text(reasons.empty() ? "" : "; ", ::dlerror());
  }
  return std::nullopt;
}

SharedLibrary open_library(const LibraryNames& names, const std::vector<std::string>& paths,
                           const std::string& stated_path) {
  std::string reasons;
  if (auto library = find_library(names, paths, reasons)) return *library;
  const std::string what = stated_path.empty()
                               ? text("No ", names.engine, " library was found")
                               : text(names.variable, "='", stated_path, "' cannot be loaded");
  throw Error(ErrorKind::comm, what, " (", reasons, ").", names.how_to_get);
}

SharedLibrary::Symbol SharedLibrary::operator[](const char* function) const {
  if (handle == nullptr) return {nullptr};
  if (const Symbol found = find(function); found.address != nullptr) return found;
  throw Error(ErrorKind::comm, "The library '", path, "' has no function ", function,
              ", so it is not a complete ", names->engine, ".", names->how_to_get);
}

SharedLibrary::Symbol SharedLibrary::find(const char* function) const {
  return {handle == nullptr ? nullptr : ::dlsym(handle, function)};
}

}  // namespace tnt::comm
