#include "tnt/comm/base/environment.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tnt::comm {
namespace {

// What describes a rank. All other variables are settings of the user.
constexpr std::array<std::string_view, 7> kOfRanks = {
    "TNT_RANK",      "TNT_SIZE",      "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE",
    "TNT_NODE_RANK", "TNT_NUM_NODES", "TNT_JOB_ID"};

std::string remedy(std::string_view name) {
  if (std::find(kOfRanks.begin(), kOfRanks.end(), name) == kOfRanks.end()) {
    return "Correct it or unset it.";
  }
  return text(
      "Whatever starts the ranks sets it, such as the launcher. To run a script as one rank "
      "without the launcher, unset ",
      listed(kOfRanks.size(), kOfRanks.size(), [](std::size_t i) { return text(kOfRanks[i]); }),
      ".");
}

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& rule) {
  throw UsageError(text("Environment variable ", name, " ", rule, ". Received: ", name, "='", value,
                        "'. ", remedy(name)));
}

// Blanks around a value do not count.
std::optional<std::string> value_of(const VariableLookup& lookup, const char* name) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const auto value = lookup(name);
  if (!value) return std::nullopt;
  const std::size_t begin = value->find_first_not_of(kBlanks);
  if (begin == std::string::npos) return std::string();
  return value->substr(begin, value->find_last_not_of(kBlanks) + 1 - begin);
}

std::string in_lower_case(std::string word) {
  for (char& c : word) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

template <typename Number>
std::optional<Number> number_in(const std::string& value) {
  Number number{};
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

int integer(const VariableLookup& lookup, const char* name, int fallback, int lowest, int highest) {
  const auto value = value_of(lookup, name);
  if (!value) return fallback;
  const auto number = number_in<unsigned>(*value);  // which has digits only
  if (!number || std::cmp_less(*number, lowest) || std::cmp_greater(*number, highest)) {
    refuse(name, *value, text("must be an integer in [", lowest, ", ", highest, "]"));
  }
  return static_cast<int>(*number);
}

std::optional<int> optional_integer(const VariableLookup& lookup, const char* name, int highest) {
  if (!lookup(name)) return std::nullopt;
  return integer(lookup, name, 0, 0, highest);
}

double seconds(const VariableLookup& lookup, const char* name, double fallback) {
  const auto value = value_of(lookup, name);
  if (!value) return fallback;
  const auto number = number_in<double>(*value);
  // "inf" and "nan" are read, too.
  if (!number || !std::isfinite(*number) || *number <= 0) {
    refuse(name, *value, "must be a number of seconds > 0");
  }
  return *number;
}

// A word of any case, in lower case. An empty one is not right anywhere.
std::string word(const VariableLookup& lookup, const char* name, const char* fallback) {
  const auto value = value_of(lookup, name);
  return value ? in_lower_case(*value) : fallback;
}

// Ranks that are started by hand need none besides the place where they meet over UCX.
std::string job_id(const VariableLookup& lookup, const Environment& environment) {
  const auto value = value_of(lookup, "TNT_JOB_ID");
  const bool is_over_ucx = environment.transport == "ucx";
  if (!value && is_over_ucx && environment.rendezvous) {
    return text("rendezvous", environment.rendezvous->port);
  }
  if (!value) {
    if (environment.size > 1 && !is_over_ucx)
      refuse("TNT_JOB_ID", "", "must be set when TNT_SIZE > 1");
    return {};
  }
  constexpr std::string_view kPlain =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const bool is_plain = value->find_first_not_of(kPlain) == std::string::npos;
  if (!is_plain || value->size() < 8 || value->size() > 32) {
    refuse("TNT_JOB_ID", *value, "must be 8 to 32 letters and digits");
  }
  return *value;
}

std::string transport(const VariableLookup& lookup) {
  const std::string value = word(lookup, "TNT_TRANSPORT", "auto");
  if (value != "auto" && value != "shm" && value != "gpi2" && value != "ucx") {
    refuse("TNT_TRANSPORT", *value_of(lookup, "TNT_TRANSPORT"), "must be auto, shm, gpi2 or ucx");
  }
  return value;
}

RdmaUse ucx_rdma(const VariableLookup& lookup) {
  const std::string value = word(lookup, "TNT_UCX_RDMA", "auto");
  if (value == "auto") return RdmaUse::automatic;
  if (value == "on") return RdmaUse::on;
  if (value == "off") return RdmaUse::off;
  refuse("TNT_UCX_RDMA", *value_of(lookup, "TNT_UCX_RDMA"), "must be auto, on or off");
}

std::string timeline(const VariableLookup& lookup) {
  const auto value = value_of(lookup, "TNT_TIMELINE");
  if (value && value->empty()) refuse("TNT_TIMELINE", *value, "must be the path of a file");
  return value.value_or("");
}

// Whoever knows it may take part. Not shown in errors.
std::string job_secret(const VariableLookup& lookup) {
  constexpr std::size_t kLeastBytes = 16;
  const auto value = value_of(lookup, "TNT_JOB_SECRET");
  if (value && value->size() < kLeastBytes) {
    refuse("TNT_JOB_SECRET", "...", text("must have ", kLeastBytes, " characters or more"));
  }
  return value.value_or("");
}

LogLevel log_level(const VariableLookup& lookup, LogLevel fallback) {
  const auto value = value_of(lookup, "TNT_LOG_LEVEL");
  if (!value) return fallback;
  constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (in_lower_case(*value) == kNames[i]) return static_cast<LogLevel>(i);
  }
  refuse("TNT_LOG_LEVEL", *value, "must be DEBUG, INFO, WARNING or ERROR");
}

std::optional<HostAndPort> rendezvous(const VariableLookup& lookup) {
  const auto value = value_of(lookup, "TNT_RENDEZVOUS");
  if (!value) return std::nullopt;
  const auto parsed = parse_host_and_port(*value);
  if (!parsed) refuse("TNT_RENDEZVOUS", *value, "must be host:port, or [address]:port for IPv6");
  return parsed;
}

}  // namespace

std::optional<HostAndPort> parse_host_and_port(const std::string& value) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostAndPort result;
  result.host = value.substr(0, colon);
  const bool has_brackets = result.host.front() == '[' && result.host.back() == ']';
  if (has_brackets) result.host = result.host.substr(1, result.host.size() - 2);
  if (result.host.empty() || (!has_brackets && result.host.find(':') != std::string::npos)) {
    return std::nullopt;
  }
  const bool has_blanks = value.find_first_of(" \t\n\v\f\r") != std::string::npos;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data() + colon + 1, end, result.port);
  if (has_blanks || error != std::errc{} || stop != end || result.port < 1 || result.port > 65535) {
    return std::nullopt;
  }
  return result;
}

Environment parse_environment(const VariableLookup& lookup) {
  constexpr int kMost = 1 << 20;
  for (const auto& [one, other] :
       {std::pair{"TNT_RANK", "TNT_SIZE"}, std::pair{"TNT_SIZE", "TNT_RANK"}}) {
    if (lookup(one) && !lookup(other)) refuse(other, "", text("must be set when ", one, " is"));
  }
  Environment result;
  result.size = integer(lookup, "TNT_SIZE", 1, 1, kMost);
  result.rank = integer(lookup, "TNT_RANK", 0, 0, result.size - 1);
  result.local_size = integer(lookup, "TNT_LOCAL_SIZE", result.size, 1, result.size);
  result.local_rank =
      integer(lookup, "TNT_LOCAL_RANK", result.rank % result.local_size, 0, result.local_size - 1);
  result.num_nodes = integer(lookup, "TNT_NUM_NODES", 1, 1, result.size);
  result.node_rank = integer(lookup, "TNT_NODE_RANK", 0, 0, result.num_nodes - 1);
  result.transport = transport(lookup);
  result.timeout_s = seconds(lookup, "TNT_TIMEOUT_S", result.timeout_s);
  const double of_former_name = seconds(lookup, "TNT_STALL_REPORT_S", result.stall_report_s);
  result.stall_report_s = seconds(lookup, "TNT_STALL_S", of_former_name);
  if (lookup("TNT_STALL_S") || lookup("TNT_STALL_REPORT_S")) {
    result.start_report_s = result.stall_report_s;
  }
  // The names are known where the algorithms are.
  result.allreduce_algorithm = word(lookup, "TNT_ALLREDUCE_ALGORITHM", "auto");
  result.log_level = log_level(lookup, result.log_level);
  result.gpi2_library = value_of(lookup, "TNT_GPI2_LIBRARY").value_or("");
  // The ports of a job are the 4 x 256 that begin here.
  result.gpi2_port = integer(lookup, "TNT_GPI2_PORT", 0, 1024, 65535 - 4 * 256);
  result.gaspi_rank = optional_integer(lookup, "GASPI_RANK", kMost);
  result.gaspi_num_ranks = optional_integer(lookup, "GASPI_NRANKS", kMost);
  result.gaspi_socket = optional_integer(lookup, "GASPI_SOCKET", kMost);
  result.gaspi_machine_file = lookup("GASPI_MFILE").value_or("");
  result.ucx_library = value_of(lookup, "TNT_UCX_LIBRARY").value_or("");
  result.ucx_rdma = ucx_rdma(lookup);
  result.rendezvous = rendezvous(lookup);
  result.job_id = job_id(lookup, result);
  result.job_secret = job_secret(lookup);
  result.interface = value_of(lookup, "TNT_INTERFACE").value_or("");
  result.timeline = timeline(lookup);
  return result;
}

Environment read_environment() {
  return parse_environment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace tnt::comm
