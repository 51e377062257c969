#include "tnt/comm/transport/rma/gpi2/gaspi_start.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using std::chrono::milliseconds;

// GPI-2 knows the deadline, too, and may say more than that it has passed.
constexpr double kGraceS = 1.0;
constexpr auto kSearchInterval = std::chrono::seconds(5);

constexpr std::size_t kLongestPath = 1023;
constexpr std::size_t kLongestHost = 62;
constexpr int kMostRanksOfHost = 256;
// Of a machine file: enough for 65536 ranks whose names are the longest.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;

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

void require_equal(const char* name, const std::optional<int>& value, const char* other_name,
                   int other) {
  if (value && *value == other) return;
  throw UsageError(text("The environment contradicts itself: ", name, "=",
                        value ? std::to_string(*value) : std::string("(not set)"), " and ",
                        other_name, "=", other,
                        ". For GPI-2 the launcher sets both to the same number."));
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
  throw UsageError(text("it must be a regular file of at most ", kMostBytes, " bytes"));
}

std::vector<RankAddress> read_machine_file(const Environment& environment) {
  const std::string& path = environment.gaspi_machine_file;
  const auto refuse = [&](const std::string& reason) {
    throw UsageError(text("rank ", environment.rank, ": the machine file GASPI_MFILE='", path,
                          "' cannot be used: ", reason, "."));
  };
  if (path.size() > kLongestPath) refuse("its path is too long for GPI-2");
  std::vector<RankAddress> addresses;
  try {
    addresses = parse_machine_file(content_of(path), environment.size);
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
  if (environment.rank != 0 && ::access(machine_file.c_str(), R_OK) != 0) return {};
  return read_machine_file(environment);
}

StartWatch::StartWatch(const Environment& environment, std::vector<RankAddress> addresses,
                       int first_presence_port, const Deadline& deadline)
    : environment_(environment),
      deadline_(deadline),
      presence_(first_presence_port + environment.gaspi_socket.value_or(0)),
      ended_(environment.job_id, environment.rank),
      addresses_(std::move(addresses)),
      first_port_(first_presence_port) {
  // All would look for all at once in a large job whose start takes long.
  if (environment.rank != 0 && !addresses_.empty()) addresses_.resize(1);
}

bool StartWatch::has_returned_in_time(const DetachableCall& call) {
  while (!call.has_returned()) {
    ended_.require_running([&] {
      std::vector<int> all(call.has_returned() ? 0 : static_cast<std::size_t>(environment_.size));
      std::iota(all.begin(), all.end(), 0);
      return all;
    });
    check_interrupt();
    search();
    report();
    if (deadline_.is_over() && seconds_since(deadline_.end()) > kGraceS) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

// When a wait is long, until others may give up and be gone. It is for messages only: a search for
// which there is no thread or no memory ends nothing.
void StartWatch::search() {
  const bool has_ended = searching_ && searching_->has_returned();
  const bool is_due = !searching_ && Clock::now() >= next_search_ && !deadline_.is_over();
  if (!has_ended && (!is_due || addresses_.empty())) return;
  next_search_ = Clock::now() + kSearchInterval;
  try {
    if (has_ended) {
      searching_->get();
      absent_ = *found_;
      searching_.reset();
    } else {
      searching_.emplace("tnt-comm-search",
                         [found = found_, addresses = addresses_, first_port = first_port_] {
                           *found = absent_ranks(addresses, first_port);
                         });
    }
  } catch (const std::exception&) {
    searching_.reset();
  }
}

// With the first result of a search.
void StartWatch::report() {
  if (has_reported_ || seconds_since(begin_) < environment_.start_report_s) return;
  if (!absent_ && !addresses_.empty()) return;
  log_warning(environment_.rank, text("has waited ", environment_.start_report_s,
                                      " s for the other ranks to start GPI-2. ", absence()));
  has_reported_ = true;
}

std::string StartWatch::absence() const {
  if (!absent_) {
    return text("Check that all ", environment_.size,
                " ranks were started, and look at their output",
                environment_.rank == 0 ? "." : "; rank 0 names those that were not started.");
  }
  if (!absent_->empty()) {
    return text("No answer from ", names_of(*absent_, addresses_), " on port ", first_port_,
                " and those after it: check that they were started, and that"
                " no firewall is between the hosts.");
  }
  if (environment_.rank != 0) return "Rank 0 has come, and names those that have not.";
  return text("All ", environment_.size,
              " ranks have come: one may be stopped, or the hosts do not"
              " reach each other's ports.");
}

}  // namespace tnt::comm
