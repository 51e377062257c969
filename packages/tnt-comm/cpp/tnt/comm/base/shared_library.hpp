#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tnt::comm {

/// What messages say of a library.
struct LibraryNames {
  const char* engine;      ///< such as "UCX"
  const char* variable;    ///< by which a user states its path
  const char* how_to_get;  ///< a sentence behind a blank
};

/// A library of others that is opened when a job needs it, and stays open until the process ends.
struct SharedLibrary {
  std::string path;
  void* handle = nullptr;  ///< null: none is open
  const LibraryNames* names = nullptr;

  struct Symbol {
    template <typename Function>
    operator Function*() const {  // NOLINT: it is what it is assigned to
      return reinterpret_cast<Function*>(address);
    }
    void* address;
  };
  /// A function of the library. CommError if it has none of that name; null if none is open.
  Symbol operator[](const char* function) const;

  /// The same, but null if it has none of that name, as older versions may.
  Symbol find(const char* function) const;
};

/// The first of these that can be opened. Nothing if there is none, for which `reasons` tells why.
/// Its names do not meet those of other libraries.
std::optional<SharedLibrary> find_library(const LibraryNames& names,
                                          const std::vector<std::string>& paths,
                                          std::string& reasons);

/// The same. CommError if there is none; `stated_path` is the user's, or empty.
SharedLibrary open_library(const LibraryNames& names, const std::vector<std::string>& paths,
                           const std::string& stated_path);

}  // namespace tnt::comm
