#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

namespace tnt::comm {
namespace {

constexpr LibraryNames kGpi2 = {
    "GPI-2", "TNT_GPI2_LIBRARY",
    " GPI-2 is a separate library that Tarantella does not contain. Build and install it as its"
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
  GaspiFunctions::Status (*get_version)(float*) = library["gaspi_version"];
  float version = 0;
  get_version(&version);
  for (const GaspiLayout& layout : kGaspiLayouts) {
    if (std::lround(version * 100) == layout.version) return layout;
  }
  throw Error(ErrorKind::comm, "The GPI-2 library '", library.path, "' says that it is version ",
              version, ". Supported are the versions ", supported_versions(),
              ", because the memory layout of its settings differs between versions."
              " Install one of these and set TNT_GPI2_LIBRARY to its libGPI2.so.");
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
    throw Error(ErrorKind::comm, "'", library.path, "' does not tell its settings.");
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

// gaspi_config_set of 1.5.1 and 1.6.0 takes over every setting but the port of the TCP device: two
// jobs on a host then meet on port 19000, and one dies. The settings themselves are an exported
// variable, whose bytes must be those that gaspi_config_get has just told.
bool set_tcp_port_in_place(const GaspiLibrary& library, std::uint32_t port) {
  void* variable = ::dlsym(library.handle, "glb_gaspi_cfg");
  if (variable == nullptr) return false;
  const Config before = read(library);
  if (std::memcmp(variable, before.bytes.data(), library.layout->config_bytes) != 0) return false;
  std::memcpy(static_cast<std::byte*>(variable) + library.layout->tcp_port, &port, sizeof port);
  return true;
}

constexpr std::size_t kLongestPath = 1023;
constexpr std::size_t kLongestHost = 62;
constexpr int kMostRanksOfHost = 256;
// Of a machine file: enough for 65536 ranks whose names are the longest.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;

void require_host(const std::string& host, int line) {
  if (host.size() > kLongestHost) {
    throw UsageError("line ", line, " has ", host.size(), " characters, but GPI-2 reads ",
                     kLongestHost, ": use a shorter name or the address");
  }
  const auto is_visible = [](char letter) { return letter > ' ' && letter < '\x7f'; };
  if (!std::all_of(host.begin(), host.end(), is_visible)) {
    throw UsageError("line ", line,
                     " has blanks, a carriage return or other characters that no host name"
                     " has: write one host per line and nothing else");
  }
}

void require_equal(const char* name, const std::optional<int>& value, const char* other_name,
                   int other) {
  if (value && *value == other) return;
  throw UsageError("The environment contradicts itself: ", name, "=",
                   value ? std::to_string(*value) : std::string("(not set)"), " and ", other_name,
                   "=", other, ". For GPI-2 the launcher sets both to the same number.");
}

// Of a regular file. Anything else could have no end, or no writer, for GPI-2 as well.
std::string content_of(const std::string& path) {
  std::string content(kMostBytes + 1, '\0');
  std::error_code error;  // opening it tells it, too
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || is_regular_file(status)) {
    std::ifstream file(path, std::ios::binary);
    file.read(content.data(), std::ssize(content));
    if (!file.is_open() || file.bad()) throw UsageError(std::strerror(errno));
    content.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (content.size() <= kMostBytes) return content;
  throw UsageError("it must be a regular file of at most ", kMostBytes, " bytes");
}

std::vector<RankAddress> read_machine_file(const Environment& environment) {
  const std::string& path = environment.gaspi_machine_file;
  const auto refuse = [&](const std::string& reason) {
    throw UsageError("rank ", environment.rank, ": the machine file GASPI_MFILE='", path,
                     "' cannot be used: ", reason, ".");
  };
  if (path.size() > kLongestPath) refuse("its path is too long for GPI-2");
  std::vector<RankAddress> addresses;
  try {
    addresses = parse_machine_file(content_of(path), environment.size);
  } catch (const Error& error) {
    refuse(error.what());
  }
  const RankAddress& own = at(addresses, environment.rank);
  if (environment.gaspi_socket != own.local_rank) {
    refuse(text("its line for this rank is number ", own.local_rank, " of host '", own.host,
                "' (counted from 0), but GASPI_SOCKET=", environment.gaspi_socket.value_or(0)));
  }
  return addresses;
}

}  // namespace

GaspiLibrary open_gaspi_library(const std::string& stated_path) {
  GaspiLibrary library{open_library(kGpi2, candidates(stated_path), stated_path)};
  library.layout = &recognise(library);
  library.functions = {.from = library};
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
    throw Error(ErrorKind::comm, "The settings of '", library.path, "' cannot be those of GPI-2 ",
                layout.name, " (queues ", settings.num_queues, ", queue length ",
                settings.queue_capacity, ", segments ", settings.num_segments, ", notifications ",
                settings.num_notifications, ", port ", port, ", TCP port ", tcp_port,
                "). Install a GPI-2 of a supported version as it was released.");
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
    throw Error(ErrorKind::comm, "TNT_GPI2_PORT=", first_port, ": '", library.path,
                "' does not accept other ports than its own (status ", status,
                "). Unset TNT_GPI2_PORT; then only one job at a time can run on a host.");
  }
}

std::vector<RankAddress> parse_machine_file(const std::string& content, int size) {
  if (!content.empty() && content.back() != '\n') {
    throw UsageError(
        "its last line has no end, so GPI-2 loses the last character: add a"
        " newline");
  }
  std::vector<RankAddress> addresses;
  std::map<std::string, int> num_ranks_of;
  std::istringstream lines(content);
  int line = 0;
  for (std::string host; std::getline(lines, host);) {
    ++line;
    if (host.empty()) continue;
    require_host(host, line);
    const int local_rank = num_ranks_of[host]++;
    if (local_rank == kMostRanksOfHost) {
      throw UsageError("GPI-2 has at most ", kMostRanksOfHost, " ranks on a host, and '", host,
                       "' has more");
    }
    addresses.push_back({host, local_rank});
  }
  if (addresses.size() != static_cast<std::size_t>(size)) {
    throw UsageError("it has ", addresses.size(), " host(s), but the job ", size,
                     " rank(s): write the host of every rank on its own line");
  }
  return addresses;
}

std::vector<RankAddress> require_gaspi_environment(const Environment& environment) {
  require_equal("GASPI_RANK", environment.gaspi_rank, "TNT_RANK", environment.rank);
  require_equal("GASPI_NRANKS", environment.gaspi_num_ranks, "TNT_SIZE", environment.size);
  for (const auto& [name, is_set] :
       {std::pair{"GASPI_SOCKET", environment.gaspi_socket.has_value()},
        std::pair{"GASPI_MFILE", !environment.gaspi_machine_file.empty()}}) {
    if (is_set) continue;
    throw UsageError("rank ", environment.rank, ": the GPI-2 transport needs the variable ", name,
                     ", which the launcher sets: GASPI_RANK, GASPI_NRANKS, GASPI_SOCKET",
                     " (number of the rank on its host) and GASPI_MFILE (file with one host",
                     " name per rank).");
  }
  // GPI-2 reads that of rank 0; the others need not have it.
  const std::string& machine_file = environment.gaspi_machine_file;
  if (environment.rank != 0 && ::access(machine_file.c_str(), R_OK) != 0) return {};
  return read_machine_file(environment);
}

}  // namespace tnt::comm
