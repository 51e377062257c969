#include "tnt/comm/transport/rma/gpi2/machine_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kLongestPath = 1023;
constexpr std::size_t kLongestHost = 62;
constexpr int kMostRanksOfHost = 256;

void require_host(const std::string& host, int line) {
  if (host.size() > kLongestHost) {
    throw UsageError(text("line ", line, " has ", host.size(), " characters, and GPI-2 reads ",
                          kLongestHost, ": use a shorter name or the address"));
  }
  const auto is_visible = [](char letter) { return letter > ' ' && letter < '\x7f'; };
  if (!std::all_of(host.begin(), host.end(), is_visible)) {
    throw UsageError(text("line ", line,
                          " has blanks, a carriage return or other characters that no host name"
                          " has: write one host per line and nothing else"));
  }
}

template <typename Value>
void require_equal(const char* name, const std::optional<int>& value, const char* other_name,
                   Value other) {
  if (value && *value == other) return;
  throw UsageError(text("The environment contradicts itself: ", name, "=",
                        value ? std::to_string(*value) : std::string("(not set)"), " and ",
                        other_name, "=", other,
                        ". For GPI-2 the launcher sets both to the same number."));
}

bool is_readable(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

}  // namespace

std::vector<RankAddress> parse_machine_file(const std::string& content, int size) {
  if (!content.empty() && content.back() != '\n') {
    throw UsageError(
        "its last line has no end, so that GPI-2 loses the last character: add a"
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
      throw UsageError(text("GPI-2 has at most ", kMostRanksOfHost, " ranks on a host, and '", host,
                            "' has more"));
    }
    addresses.push_back({host, local_rank});
  }
  if (addresses.size() != static_cast<std::size_t>(size)) {
    throw UsageError(text("it has ", addresses.size(), " host(s), and the job ", size,
                          " rank(s): write the host of every rank on a line of its own"));
  }
  return addresses;
}

std::vector<RankAddress> read_machine_file(const Environment& environment) {
  const std::string& path = environment.gaspi_machine_file;
  const auto refuse = [&](const std::string& reason) {
    throw UsageError(text("rank ", environment.rank, ": the machine file GASPI_MFILE='", path,
                          "' cannot be used: ", reason, "."));
  };
  if (path.size() > kLongestPath) refuse("its path is too long for GPI-2");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) {
    // An empty file is read without a character, which counts as a failure, too.
    if (errno != 0) refuse(std::strerror(errno));
  }
  std::vector<RankAddress> addresses;
  try {
    addresses = parse_machine_file(content.str(), environment.size);
  } catch (const Error& error) {
    refuse(error.what());
  }
  const RankAddress& own = addresses[static_cast<std::size_t>(environment.rank)];
  if (environment.gaspi_socket != own.local_rank) {
    refuse(text("its line for this rank is number ", own.local_rank, " of host '", own.host,
                "' (counted from 0), but GASPI_SOCKET=", environment.gaspi_socket.value_or(0)));
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
    throw UsageError(text("rank ", environment.rank, ": the GPI-2 transport needs the variable ",
                          name, ", which the launcher sets: GASPI_RANK, GASPI_NRANKS, GASPI_SOCKET",
                          " (number of the rank on its host) and GASPI_MFILE (file with one host",
                          " name per rank)."));
  }
  // GPI-2 reads that of rank 0; the others need not have it.
  const std::string& machine_file = environment.gaspi_machine_file;
  if (environment.rank != 0 && !is_readable(machine_file)) return {};
  return read_machine_file(environment);
}

}  // namespace tnt::comm
