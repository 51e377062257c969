#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/shared_library.hpp"

namespace tnt::comm {

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
