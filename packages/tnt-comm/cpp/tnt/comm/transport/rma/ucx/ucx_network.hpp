#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {

/// What a rank uses of its host's networks.
struct UcxNetwork {
  /// Of an eager message over TCP that goes in one piece.
  static constexpr std::size_t kMostMessageBytes = 128 * 1024;

  std::string interface;           ///< for TCP, such as "eth0"; empty: UCX' choice
  bool has_rdma = false;           ///< data is put by remote key
  std::vector<std::string> ports;  ///< of verbs, by which it is; if there are none, UCX emulates it
};

/// What `use` means where these ports are, which are only looked for if that matters.
///
/// A user who has named UCX' transports or devices (UCX_TLS, UCX_NET_DEVICES) gets RDMA only if
/// told to: whether these have it is not known here.
UcxNetwork choose_network(RdmaUse use, const std::string& interface,
                          const std::function<std::vector<std::string>()>& find_ports);

/// The active ports of this host that the library can use.
std::vector<std::string> usable_ports(const std::string& interface, const UcxLibrary& library);

/// Makes the settings of a context, except those that the user has made.
void apply_settings(const UcxLibrary& library, const UcxNetwork& network, ucx::Config* config);

}  // namespace tnt::comm
