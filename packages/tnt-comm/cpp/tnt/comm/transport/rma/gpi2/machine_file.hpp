#pragma once

#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/presence.hpp"

namespace tnt::comm {

/// The addresses in a machine file, by rank. One host per line; empty lines do not
/// count. Refuses whatever GPI-2 misreads (UsageError with the number of the line):
/// more or fewer hosts than ranks, names of more than 62 characters or with blanks,
/// a last line without an end, more than 256 ranks of a host.
std::vector<RankAddress> parse_machine_file(const std::string& content, int size);

/// The addresses in GASPI_MFILE. UsageError if the file cannot be read or is refused
/// above, or if GASPI_SOCKET is not what follows from it.
std::vector<RankAddress> read_machine_file(const Environment& environment);

/// UsageError if GASPI_* and TNT_* variables contradict each other, one that
/// GPI-2 needs is not set, or the machine file is not what the job needs. Returns the
/// addresses in that file; none on ranks that cannot read it, as only rank 0 must.
std::vector<RankAddress> require_gaspi_environment(const Environment& environment);

}  // namespace tnt::comm
