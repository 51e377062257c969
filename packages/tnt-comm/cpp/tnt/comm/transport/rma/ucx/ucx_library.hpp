#pragma once

#include <string>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"

namespace tnt::comm {

/// A loaded UCX library.
struct UcxLibrary {
  std::string path;
  std::string version;  ///< such as "1.22.0"
  unsigned minor = 0;   ///< its second number
  ucx::Functions functions{};
};

/// The folder of the libraries in UCX' wheel, which only Python knows. Before anything else here.
void set_ucx_wheel_folder(const std::string& folder);

/// Where UCX is looked for, in this order: the stated path alone if there is one, the folder of
/// the wheel if it is known, the loader's path, pkg-config.
std::vector<std::string> ucx_candidates(const std::string& stated_path);

/// Opens the first that can be loaded. Sets what UCX reads when it is loaded, unless the user has
/// set it: UCX takes signals, patches functions of the C library and loads modules for GPUs
/// otherwise. The library stays loaded until the process ends.
///
/// CommError that says how to get UCX if there is none, and for versions that are not known to
/// work.
UcxLibrary open_ucx_library(const std::string& stated_path);

/// Whether open_ucx_library() would find one.
bool has_ucx_library(const std::string& stated_path);

/// What a status of UCX means, for those that a user can do something about.
std::string meaning_of_ucx(ucx::Status status);

}  // namespace tnt::comm
