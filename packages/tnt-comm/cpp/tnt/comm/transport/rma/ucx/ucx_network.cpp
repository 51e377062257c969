#include "tnt/comm/transport/rma/ucx/ucx_network.hpp"

#include <unistd.h>

#include <cstdlib>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/ucx/verbs_ports.hpp"

namespace tnt::comm {
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

}  // namespace tnt::comm
