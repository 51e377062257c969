#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
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
};

/// The first of these that can be opened. Nothing if there is none, for which `reasons` tells why.
/// Its names do not meet those of other libraries.
std::optional<SharedLibrary> find_library(const LibraryNames& names,
                                          const std::vector<std::string>& paths,
                                          std::string& reasons);

/// The same. CommError if there is none; `stated_path` is the user's, or empty.
SharedLibrary open_library(const LibraryNames& names, const std::vector<std::string>& paths,
                           const std::string& stated_path);

/// The folder of a package's libraries; empty if pkg-config knows none, or is not there.
std::string folder_of_pkg_config(const char* package);

/// Of this process.
std::vector<int> open_descriptors();

/// Sockets of this process: descriptors, with the inode, since a descriptor may come to mean
/// something else.
using OpenSockets = std::set<std::pair<int, ino_t>>;
OpenSockets open_sockets();

/// Raises the soft limit of open files where it is too low for a network library, `engine`, among
/// `size` ranks. CommError that names the limit.
void require_descriptors(const std::string& engine, int rank, int size);

/// Keeps those opened since then, by a network library, out of child processes.
///
/// Libraries open them without CLOEXEC. A child that inherits them keeps a dead rank's connections
/// open: nobody notices the death, and its ports stay taken. So programs that are executed do not
/// get them, and forked children close them. Once per process and library.
void keep_new_sockets_from_children(const OpenSockets& sockets_before);

}  // namespace tnt::comm
