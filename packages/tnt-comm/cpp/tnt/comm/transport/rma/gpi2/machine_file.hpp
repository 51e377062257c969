#pragma once

#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"

namespace tnt::comm {

/// Where GPI-2 looks for a rank.
struct RankAddress {
  std::string host;
  int local_rank = 0;  ///< among the ranks of the same host, which all have ports of their own
};

/// The addresses in a machine file, by rank. One host per line; empty lines do not
/// count. Refuses whatever GPI-2 misreads (UsageError with the number of the line):
/// more or fewer hosts than ranks, names of more than 62 characters or with blanks,
/// a last line without an end, more than 256 ranks of a host.
std::vector<RankAddress> parse_machine_file(const std::string& content, int size);

/// The addresses in GASPI_MFILE. UsageError if the file cannot be read or is refused
/// above, or if GASPI_SOCKET is not what follows from it.
std::vector<RankAddress> read_machine_file(const Environment& environment);

}  // namespace tnt::comm
