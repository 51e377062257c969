#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"

namespace tnt::comm {

/// The functions of GPI-2 that are used, declared anew: no header of GPI-2 is
/// needed to build this library, and none of its code is in it.
///
/// All return 0 (done), 1 (time is over) or another number (an error). Times
/// are in milliseconds; 0 looks once and never waits.
struct GaspiFunctions {
  using Status = int;
  using Time = std::uint64_t;

  SharedLibrary from = {};

  Status (*proc_init)(Time) = from["gaspi_proc_init"];
  Status (*barrier)(std::uint8_t group, Time) = from["gaspi_barrier"];
  Status (*segment_alloc)(std::uint8_t segment, std::uint64_t num_bytes,
                          int policy) = from["gaspi_segment_alloc"];
  Status (*segment_ptr)(std::uint8_t segment, void** pointer) = from["gaspi_segment_ptr"];
  Status (*segment_delete)(std::uint8_t segment) = from["gaspi_segment_delete"];
  Status (*segment_register)(std::uint8_t segment, std::uint16_t rank,
                             Time) = from["gaspi_segment_register"];
  Status (*write)(std::uint8_t from_segment, std::uint64_t from, std::uint16_t rank,
                  std::uint8_t to_segment, std::uint64_t to, std::uint64_t num_bytes,
                  std::uint8_t queue, Time) = from["gaspi_write"];
  // Ids of notifications have 16 bits up to GPI-2 1.5 and 32 bits since 1.6. In
  // a register, and with values below 65536, both are passed alike.
  Status (*notify)(std::uint8_t to_segment, std::uint16_t rank, std::uint32_t id,
                   std::uint32_t value, std::uint8_t queue, Time) = from["gaspi_notify"];
  Status (*notify_waitsome)(std::uint8_t segment, std::uint32_t first_id, std::uint32_t count,
                            std::uint32_t* id, Time) = from["gaspi_notify_waitsome"];
  Status (*notify_reset)(std::uint8_t segment, std::uint32_t id,
                         std::uint32_t* value) = from["gaspi_notify_reset"];
  Status (*wait)(std::uint8_t queue, Time) = from["gaspi_wait"];
  Status (*queue_size)(std::uint8_t queue, std::uint32_t* num_requests) = from["gaspi_queue_size"];
  Status (*state_vec_get)(int* states) = from["gaspi_state_vec_get"];
  Status (*config_get)(void* config) = from["gaspi_config_get"];
};

/// Where a version of GPI-2 keeps the settings that are used here: offsets in its configuration.
struct GaspiLayout {
  int version;  ///< times 100, as gaspi_version() tells it
  const char* name;
  std::size_t config_bytes;
  std::size_t sn_port;   ///< first port of its side channel
  std::size_t tcp_port;  ///< first port of its TCP device
  std::size_t network;   ///< kind of the device
  std::size_t queue_size_max;
  std::size_t queue_num;
  std::size_t segment_max;
  std::size_t notification_num;
};

inline constexpr std::size_t kMostConfigBytes = 144;
inline constexpr std::array<GaspiLayout, 2> kGaspiLayouts = {{
    {151, "1.5.1", 128, 4, 48, 52, 56, 60, 68, 80},
    {160, "1.6.0", 144, 4, 48, 64, 68, 72, 80, 96},
}};

/// A GPI-2 library that was found, opened and recognised.
struct GaspiLibrary : SharedLibrary {
  const GaspiLayout* layout = nullptr;
  GaspiFunctions functions{};
};

/// Looks for the library and opens it: `stated_path` (TNT_GPI2_LIBRARY) if it
/// is not empty, otherwise what pkg-config knows as GPI2, otherwise the paths of
/// the loader. It stays open until the process ends.
///
/// CommError if there is none (with how to get it), or if its version is not one of kGaspiLayouts.
GaspiLibrary open_gaspi_library(const std::string& stated_path);

/// Limits of a GPI-2 library, as it is configured.
struct GaspiSettings {
  int num_queues = 0;
  std::size_t queue_capacity = 0;
  int num_segments = 0;
  std::size_t num_notifications = 0;
};

/// Reads the settings, and refuses values that cannot be: they mean that the
/// structure is not laid out as expected (CommError).
GaspiSettings read_gaspi_settings(const GaspiLibrary& library);

/// The ports on which the rank with this number on its host will listen: GPI-2's, and that of its
/// presence. Before proc_init only.
std::vector<int> ports_to_listen(const GaspiLibrary& library, int local_rank);

/// The port on which the first rank of a host shows that it has come.
int first_presence_port(const GaspiLibrary& library);

/// Makes the library use `first_port` and the ports after it: side channel
/// + 0, start-up + 256, TCP device + 512, each plus the rank's number on its
/// host; the presence of ranks is shown from + 768 on. Before proc_init only.
void set_gaspi_ports(const GaspiLibrary& library, int first_port);

/// The addresses in a machine file, by rank. One host per line; empty lines do not
/// count. Refuses whatever GPI-2 misreads (UsageError with the number of the line):
/// more or fewer hosts than ranks, names of more than 62 characters or with blanks,
/// a last line without an end, more than 256 ranks of a host.
std::vector<RankAddress> parse_machine_file(const std::string& content, int size);

/// UsageError if GASPI_* and TNT_* variables contradict each other, one that
/// GPI-2 needs is not set, or the machine file GASPI_MFILE is not what the job needs. Returns the
/// addresses in that file; none on ranks that cannot read it, as only rank 0 must.
std::vector<RankAddress> require_gaspi_environment(const Environment& environment);

}  // namespace tnt::comm
