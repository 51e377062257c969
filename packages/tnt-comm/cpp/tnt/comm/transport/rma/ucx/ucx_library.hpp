#pragma once

#include <optional>
#include <string>

#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"

namespace tnt::comm {

/// A loaded UCX library.
struct UcxLibrary : SharedLibrary {
  std::string version;  ///< such as "1.22.0"
  unsigned minor = 0;   ///< its second number
  ucx::Functions functions{};
};

/// The folder of the libraries in UCX' wheel, which only Python knows. Before anything else here.
void set_ucx_wheel_folder(const std::string& folder);

/// Opens the first that can be loaded: the stated path alone if there is one, else that of the
/// wheel if its folder is known, of the loader's path, of pkg-config. Sets what UCX reads when it
/// is loaded, unless the user has set it: UCX takes signals, patches functions of the C library and
/// loads modules for GPUs otherwise. The library stays loaded until the process ends.
///
/// CommError that says how to get UCX if there is none, and for versions that are not known to
/// work.
UcxLibrary open_ucx_library(const std::string& stated_path);

/// The same, but nothing if there is none.
std::optional<UcxLibrary> find_ucx_library(const std::string& stated_path);

/// Whether the library finds adapters for InfiniBand or RoCE; not all are built with them. Names
/// of such are warned of by the others.
bool has_verbs_devices(const UcxLibrary& library);

/// CommError unless the function `what` has returned kOk.
void require_ok(const UcxLibrary& library, int rank, ucx::Status status, const std::string& what);

/// What a status of UCX means, for those that a user can do something about.
std::string meaning_of_ucx(ucx::Status status);

}  // namespace tnt::comm
