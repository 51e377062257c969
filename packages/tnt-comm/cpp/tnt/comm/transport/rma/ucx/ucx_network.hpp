#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {

/// The ports over which this host can do RDMA by verbs, as UCX names them ("mlx5_0:1"), sorted:
/// the active ones of InfiniBand, and those of RoCE whose adapter is that of the network interface
/// `interface`. Others of Ethernet may be in networks that the other hosts are not in.
///
/// `sysfs`: where the kernel shows its devices.
std::vector<std::string> active_verbs_ports(const std::string& interface,
                                            const std::filesystem::path& sysfs = "/sys");

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

/// Memory of this rank that network adapters know.
struct RegisteredMemory {
  ucx::Memory handle = nullptr;
  std::string remote_key;  ///< packed: by which another rank can write there
};

/// UCX' settings and network adapters in this process.
///
/// Threads: one at a time, as for its worker.
class UcxContext {
 public:
  /// For as many ranks; CommError. `library` must stay.
  UcxContext(const UcxLibrary& library, const UcxNetwork& network, int rank, int size);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucx::Context handle() const { return handle_; }

  /// Nothing if that fails: adapters limit how much memory they take, and so does the kernel.
  std::optional<RegisteredMemory> register_memory(void* address, std::size_t num_bytes);
  /// Also done at the end, when the worker has ended.
  void deregister(const RegisteredMemory& memory);

 private:
  const ucx::Functions& functions_;
  ucx::Context handle_ = nullptr;
  std::set<ucx::Memory> registered_;
};

}  // namespace tnt::comm
