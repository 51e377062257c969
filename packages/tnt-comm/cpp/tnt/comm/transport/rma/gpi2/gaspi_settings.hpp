#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"

namespace tnt::comm {

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

/// The ports on which the rank with this number on its host will listen: GPI-2's, and
/// that of its presence. Before
/// proc_init only.
std::vector<int> ports_to_listen(const GaspiLibrary& library, int local_rank);

/// The port on which the first rank of a host shows that it has come.
int first_presence_port(const GaspiLibrary& library);

/// Makes the library use `first_port` and the ports after it: side channel
/// + 0, start-up + 256, TCP device + 512, each plus the rank's number on its
/// host; the presence of ranks is shown from + 768 on. Before proc_init only.
void set_gaspi_ports(const GaspiLibrary& library, int first_port);

}  // namespace tnt::comm
