#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
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
/// CommError that says how to get UCX if there is none, and for versions not known to work.
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
  UcxContext(const UcxLibrary& library, const UcxNetwork& network, int rank, int size)
      : functions_(library.functions) {
    ucx::Config* read = nullptr;
    require_ok(library, rank, functions_.config_read(nullptr, nullptr, &read), "ucp_config_read");
    const std::unique_ptr<ucx::Config, void (*)(ucx::Config*)> config(read,
                                                                      functions_.config_release);
    apply_settings(library, network, read);
    ucx::ContextParameters parameters{};
    parameters.mask =
        ucx::ContextParameters::kHasFeatures | ucx::ContextParameters::kHasNumEndpoints;
    parameters.features = ucx::ContextParameters::kActiveMessages | ucx::ContextParameters::kWakeup;
    if (network.has_rdma) parameters.features |= ucx::ContextParameters::kRemoteMemory;
    parameters.num_endpoints = static_cast<std::size_t>(size);
    require_ok(library, rank,
               functions_.init_version(kApiMajor, kApiMinor, &parameters, read, &handle_),
               "ucp_init");
  }

  ~UcxContext() {
    for (const ucx::Memory memory : registered_) functions_.mem_unmap(handle_, memory);
    functions_.cleanup(handle_);
  }

  UcxContext(UcxContext&&) = delete;

  ucx::Context handle() const { return handle_; }

  /// Nothing if that fails: adapters limit how much memory they take, and so does the kernel.
  std::optional<RegisteredMemory> register_memory(void* address, std::size_t num_bytes) {
    ucx::MemoryParameters parameters{};
    parameters.mask = ucx::MemoryParameters::kHasAddress | ucx::MemoryParameters::kHasLength;
    parameters.address = address;
    parameters.length = num_bytes;
    RegisteredMemory memory;
    if (functions_.mem_map(handle_, &parameters, &memory.handle) != ucx::kOk) return std::nullopt;
    registered_.insert(memory.handle);
    void* packed = nullptr;
    std::size_t packed_bytes = 0;
    if (functions_.rkey_pack(handle_, memory.handle, &packed, &packed_bytes) != ucx::kOk) {
      deregister(memory);
      return std::nullopt;
    }
    memory.remote_key.assign(static_cast<const char*>(packed), packed_bytes);
    functions_.rkey_buffer_release(packed);
    return memory;
  }

  /// Also done at the end, when the worker has ended.
  void deregister(const RegisteredMemory& memory) {
    if (registered_.erase(memory.handle) != 0) functions_.mem_unmap(handle_, memory.handle);
  }

 private:
  // The interface of UCX that is asked for: that of the oldest version.
  static constexpr unsigned kApiMajor = 1;
  static constexpr unsigned kApiMinor = 13;

  const ucx::Functions& functions_;
  ucx::Context handle_ = nullptr;
  std::set<ucx::Memory> registered_;
};

}  // namespace tnt::comm
