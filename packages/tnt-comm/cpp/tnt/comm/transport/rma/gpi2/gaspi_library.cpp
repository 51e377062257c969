#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"

#include <dlfcn.h>

#include <cmath>
#include <cstring>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr LibraryNames kGpi2 = {
    "GPI-2", "TNT_GPI2_LIBRARY",
    " GPI-2 is a library of its own that Tarantella does not contain. Build and install it as its"
    " README says (https://github.com/cc-hpc-itwm/GPI-2; shared library, Ethernet or InfiniBand"
    " device), then set TNT_GPI2_LIBRARY to the path of its libGPI2.so, or make pkg-config or the"
    " loader find it."};

std::string supported_versions() {
  std::string result;
  for (const GaspiLayout& layout : kGaspiLayouts) {
    result += text(result.empty() ? "" : " and ", layout.name);
  }
  return result;
}

std::vector<std::string> candidates(const std::string& stated_path) {
  if (!stated_path.empty()) return {stated_path};
  constexpr std::array kNames = {"libGPI2.so.0", "libGPI2.so"};
  std::vector<std::string> result;
  const std::string folder = folder_of_pkg_config("GPI2");
  for (const char* name : kNames) {
    if (!folder.empty()) result.push_back(text(folder, "/", name));
  }
  result.insert(result.end(), kNames.begin(), kNames.end());
  return result;
}

const GaspiLayout& recognise(const GaspiLibrary& library) {
  GaspiFunctions::Status (*get_version)(float*) = nullptr;
  resolve(library, kGpi2, "gaspi_version", get_version);
  float version = 0;
  get_version(&version);
  for (const GaspiLayout& layout : kGaspiLayouts) {
    if (std::lround(version * 100) == layout.version) return layout;
  }
  throw Error(ErrorKind::comm,
              text("The GPI-2 library '", library.path, "' says that it is version ", version,
                   ". Supported are the versions ", supported_versions(),
                   ", because the memory layout of its settings differs between versions."
                   " Install one of these and set TNT_GPI2_LIBRARY to its libGPI2.so."));
}

constexpr int kStartPortOffset = 256;  // behind the ports of the side channel, one per rank
constexpr int kTcpPortOffset = 512;    // behind those for the start
constexpr int kPresencePortOffset = 768;
constexpr std::uint32_t kEthernet = 2;  // kind of device whose port number matters

// The library's settings, as bytes: what they mean is a matter of the layout.
struct alignas(8) Config {
  std::array<std::byte, kMostConfigBytes> bytes{};

  std::uint32_t number(std::size_t offset) const {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  void set_number(std::size_t offset, std::uint32_t value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
};

Config read(const GaspiLibrary& library) {
  Config config;
  if (library.functions.config_get(config.bytes.data()) != 0) {
    throw Error(ErrorKind::comm, text("'", library.path, "' does not tell its settings."));
  }
  return config;
}

bool is_port(std::uint32_t number) {
  return number >= 1024 && number <= 65535;
}

// gaspi_config_set takes the structure by value, so its size is part of the call.
template <std::size_t kBytes>
int set_by_value(void* function, const Config& config) {
  struct alignas(8) Value {
    std::array<std::byte, kBytes> bytes;
  } value;
  std::memcpy(value.bytes.data(), config.bytes.data(), kBytes);
  return reinterpret_cast<int (*)(Value)>(function)(value);
}

int set(const GaspiLibrary& library, const Config& config) {
  void* function = ::dlsym(library.handle, "gaspi_config_set");
  if (function == nullptr) return -1;
  static_assert(kGaspiLayouts[0].config_bytes == 128 && kGaspiLayouts[1].config_bytes == 144);
  return library.layout->config_bytes == 128 ? set_by_value<128>(function, config)
                                             : set_by_value<144>(function, config);
}

// gaspi_config_set of 1.5.1 and 1.6.0 takes over every setting but the port of
// the TCP device: two jobs on a host then meet on port 19000, and one dies. The
// settings themselves are an exported variable, whose bytes must be those that
// gaspi_config_get has just told.
bool set_tcp_port_in_place(const GaspiLibrary& library, std::uint32_t port) {
  void* variable = ::dlsym(library.handle, "glb_gaspi_cfg");
  if (variable == nullptr) return false;
  const Config before = read(library);
  if (std::memcmp(variable, before.bytes.data(), library.layout->config_bytes) != 0) return false;
  std::memcpy(static_cast<std::byte*>(variable) + library.layout->tcp_port, &port, sizeof port);
  return true;
}

}  // namespace

GaspiLibrary open_gaspi_library(const std::string& stated_path) {
  GaspiLibrary library{open_library(kGpi2, candidates(stated_path), stated_path)};
  library.layout = &recognise(library);
  GaspiFunctions& functions = library.functions;
  resolve(library, kGpi2, "gaspi_proc_init", functions.proc_init);
  resolve(library, kGpi2, "gaspi_barrier", functions.barrier);
  resolve(library, kGpi2, "gaspi_segment_alloc", functions.segment_alloc);
  resolve(library, kGpi2, "gaspi_segment_ptr", functions.segment_ptr);
  resolve(library, kGpi2, "gaspi_segment_delete", functions.segment_delete);
  resolve(library, kGpi2, "gaspi_segment_register", functions.segment_register);
  resolve(library, kGpi2, "gaspi_write", functions.write);
  resolve(library, kGpi2, "gaspi_notify", functions.notify);
  resolve(library, kGpi2, "gaspi_notify_waitsome", functions.notify_waitsome);
  resolve(library, kGpi2, "gaspi_notify_reset", functions.notify_reset);
  resolve(library, kGpi2, "gaspi_wait", functions.wait);
  resolve(library, kGpi2, "gaspi_queue_size", functions.queue_size);
  resolve(library, kGpi2, "gaspi_state_vec_get", functions.state_vec_get);
  resolve(library, kGpi2, "gaspi_config_get", functions.config_get);
  return library;
}

GaspiSettings read_gaspi_settings(const GaspiLibrary& library) {
  const GaspiLayout& layout = *library.layout;
  const Config config = read(library);
  GaspiSettings settings;
  settings.num_queues = static_cast<int>(config.number(layout.queue_num));
  settings.queue_capacity = config.number(layout.queue_size_max);
  settings.num_segments = static_cast<int>(config.number(layout.segment_max));
  settings.num_notifications = config.number(layout.notification_num);
  const std::uint32_t port = config.number(layout.sn_port);
  const std::uint32_t tcp_port = config.number(layout.tcp_port);
  const bool is_plausible = settings.num_queues >= 2 && settings.num_queues <= 16 &&
                            settings.queue_capacity >= 256 && settings.queue_capacity <= 4096 &&
                            settings.num_segments >= 2 && settings.num_segments <= 255 &&
                            settings.num_notifications >= 1024 && is_port(port) &&
                            (config.number(layout.network) != kEthernet || is_port(tcp_port));
  if (!is_plausible) {
    throw Error(ErrorKind::comm,
                text("The settings of '", library.path, "' cannot be those of GPI-2 ", layout.name,
                     " (queues ", settings.num_queues, ", queue length ", settings.queue_capacity,
                     ", segments ", settings.num_segments, ", notifications ",
                     settings.num_notifications, ", port ", port, ", TCP port ", tcp_port,
                     "). Install a GPI-2 of a supported version as it was released."));
  }
  return settings;
}

std::vector<int> ports_to_listen(const GaspiLibrary& library, int local_rank) {
  const GaspiLayout& layout = *library.layout;
  const Config config = read(library);
  const int side_channel = static_cast<int>(config.number(layout.sn_port)) + local_rank;
  std::vector<int> ports = {side_channel, side_channel + kStartPortOffset,
                            side_channel + kPresencePortOffset};
  if (config.number(layout.network) == kEthernet) {
    ports.push_back(static_cast<int>(config.number(layout.tcp_port)) + local_rank);
  }
  return ports;
}

int first_presence_port(const GaspiLibrary& library) {
  return static_cast<int>(read(library).number(library.layout->sn_port)) + kPresencePortOffset;
}

void set_gaspi_ports(const GaspiLibrary& library, int first_port) {
  const GaspiLayout& layout = *library.layout;
  const auto tcp_port = static_cast<std::uint32_t>(first_port + kTcpPortOffset);
  Config config = read(library);
  config.set_number(layout.sn_port, static_cast<std::uint32_t>(first_port));
  config.set_number(layout.tcp_port, tcp_port);
  const int status = set(library, config);
  bool is_set = status == 0;
  if (is_set && config.number(layout.network) == kEthernet &&
      read(library).number(layout.tcp_port) != tcp_port) {
    is_set = set_tcp_port_in_place(library, tcp_port);
  }
  if (!is_set) {
    throw Error(ErrorKind::comm,
                text("TNT_GPI2_PORT=", first_port, ": '", library.path,
                     "' does not accept other ports than its own (status ", status,
                     "). Unset TNT_GPI2_PORT; then only one job at a time can run on a host."));
  }
}

}  // namespace tnt::comm
