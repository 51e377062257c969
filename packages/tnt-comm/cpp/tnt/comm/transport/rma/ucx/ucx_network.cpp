#include "tnt/comm/transport/rma/ucx/ucx_network.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

namespace fs = std::filesystem;

// The kernel's words. Adapters of iWARP have ports of Ethernet as well, and are no channel
// adapters.
constexpr const char* kActive = "4: ACTIVE";
constexpr const char* kChannelAdapter = "1: CA";

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Empty for a folder that is not there.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    result.push_back(entry->path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool belongs_to(const fs::path& adapter, const std::string& interface, const fs::path& sysfs) {
  std::error_code error;
  return !interface.empty() &&
         fs::exists(sysfs / "class/net" / interface / "device/infiniband" / adapter.filename(),
                    error);
}

}  // namespace

std::vector<std::string> active_verbs_ports(const std::string& interface, const fs::path& sysfs) {
  std::vector<std::string> result;
  for (const fs::path& adapter : entries_of(sysfs / "class/infiniband")) {
    if (first_line(adapter / "node_type") != kChannelAdapter) continue;
    for (const fs::path& port : entries_of(adapter / "ports")) {
      if (first_line(port / "state") != kActive) continue;
      const std::string link_layer = first_line(port / "link_layer");
      const bool is_roce = link_layer == "Ethernet" && belongs_to(adapter, interface, sysfs);
      if (link_layer != "InfiniBand" && !is_roce) continue;
      result.push_back(adapter.filename().string() + ":" + port.filename().string());
    }
  }
  return result;
}

namespace {

constexpr std::size_t kHeaderRoom = 4096;

bool is_set_by_user(const char* name) {
  return std::getenv(text("UCX_", name).c_str()) != nullptr;
}

// UCX does not use bridges of virtual machines and containers, unless it is told to.
bool is_bridge(const std::string& interface) {
  return !interface.empty() &&
         ::access(text("/sys/class/net/", interface, "/bridge").c_str(), F_OK) == 0;
}

std::string devices_of(const UcxNetwork& network) {
  std::string result = network.interface;
  for (const std::string& port : network.ports) result += text(",", port);
  return result;
}

}  // namespace

UcxNetwork choose_network(RdmaUse use, const std::string& interface,
                          const std::function<std::vector<std::string>()>& find_ports) {
  UcxNetwork network{interface, use == RdmaUse::on, {}};
  const bool is_left_to_user = is_set_by_user("TLS") || is_set_by_user("NET_DEVICES");
  if (use == RdmaUse::off || is_left_to_user) return network;
  network.ports = find_ports();
  if (!network.ports.empty()) network.has_rdma = true;
  return network;
}

std::vector<std::string> usable_ports(const std::string& interface, const UcxLibrary& library) {
  std::vector<std::string> ports = active_verbs_ports(interface);
  if (!ports.empty() && !has_verbs_devices(library)) ports.clear();
  return ports;
}

void apply_settings(const UcxLibrary& library, const UcxNetwork& network, ucx::Config* config) {
  const auto set = [&](const char* name, const std::string& value) {
    // Unknown ones are no matter.
    if (!is_set_by_user(name)) library.functions.config_modify(config, name, value.c_str());
  };
  // The name for all transports of InfiniBand and RoCE.
  set("TLS", network.ports.empty() ? "tcp" : "ib,tcp");
  // One with the same address on all hosts, as of containers, would be chosen otherwise.
  if (!network.interface.empty()) set("NET_DEVICES", devices_of(network));
  set("MAX_EAGER_RAILS", "1");
  // 1.13 takes no settings of a transport here, and warns of them; before 1.16 bridges are used.
  if (library.minor >= 14) {
    set("TCP_CONN_NB", "y");  // else connecting to one blocks all
    // Of whole messages.
    set("TCP_RX_SEG_SIZE", text(UcxNetwork::kMostMessageBytes + kHeaderRoom));
  }
  if (library.minor >= 16 && is_bridge(network.interface)) set("TCP_BRIDGE_ENABLE", "y");
}

namespace {

// The interface of UCX that is asked for: that of the oldest version.
constexpr unsigned kApiMajor = 1;
constexpr unsigned kApiMinor = 13;

}  // namespace

UcxContext::UcxContext(const UcxLibrary& library, const UcxNetwork& network, int rank, int size)
    : functions_(library.functions) {
  ucx::Config* read = nullptr;
  require_ok(library, rank, functions_.config_read(nullptr, nullptr, &read), "ucp_config_read");
  const std::unique_ptr<ucx::Config, void (*)(ucx::Config*)> config(read,
                                                                    functions_.config_release);
  apply_settings(library, network, read);
  ucx::ContextParameters parameters{};
  parameters.mask = ucx::ContextParameters::kHasFeatures | ucx::ContextParameters::kHasNumEndpoints;
  parameters.features = ucx::ContextParameters::kActiveMessages | ucx::ContextParameters::kWakeup;
  if (network.has_rdma) parameters.features |= ucx::ContextParameters::kRemoteMemory;
  parameters.num_endpoints = static_cast<std::size_t>(size);
  require_ok(library, rank,
             functions_.init_version(kApiMajor, kApiMinor, &parameters, read, &handle_),
             "ucp_init");
}

UcxContext::~UcxContext() {
  for (const ucx::Memory memory : registered_) functions_.mem_unmap(handle_, memory);
  functions_.cleanup(handle_);
}

std::optional<RegisteredMemory> UcxContext::register_memory(void* address, std::size_t num_bytes) {
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

void UcxContext::deregister(const RegisteredMemory& memory) {
  if (registered_.erase(memory.handle) != 0) functions_.mem_unmap(handle_, memory.handle);
}

}  // namespace tnt::comm
