#include "tnt/comm/base/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tnt/comm/base/variables.hpp"

namespace tnt::comm {
namespace {

using variables::Variable;

std::string remedy(std::string_view name) {
  const auto& of_ranks = variables::kOfRanks;
  if (std::find(of_ranks.begin(), of_ranks.end(), name) == of_ranks.end()) {
    return "Correct it or unset it.";
  }
  return text(
      "Whatever starts the ranks sets it, such as the launcher. To run a script as one rank "
      "without the launcher, unset ",
      listed(of_ranks.size(), of_ranks.size(), [&](std::size_t i) { return text(of_ranks[i]); }),
      ".");
}

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& rule) {
  throw UsageError("Environment variable ", name, " ", rule, ". Received: ", name, "='", value,
                   "'. ", remedy(name));
}

constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Blanks around a value do not count.
std::optional<std::string> value_of(const VariableLookup& lookup, const char* name) {
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

double seconds(const VariableLookup& lookup, const Variable& variable, double fallback) {
  const auto value = value_of(lookup, variable.name);
  if (!value) return fallback;
  const auto number = number_in<double>(*value);
  // "inf" and "nan" are read, too.
  if (!number || !std::isfinite(*number) || *number <= 0) {
    refuse(variable.name, *value, "must be a number of seconds > 0");
  }
  return *number;
}

// The index of a word among those of the table. Its case does not count.
std::size_t word_index(const VariableLookup& lookup, const Variable& variable) {
  const std::string value = value_of(lookup, variable.name).value_or(variable.fallback);
  const auto end = std::find(variable.words.begin(), variable.words.end(), "");
  const auto found = std::find_if(variable.words.begin(), end, [&](std::string_view word) {
    return in_lower_case(text(word)) == in_lower_case(value);
  });
  if (found == end) {
    const auto count = static_cast<std::size_t>(end - variable.words.begin());
    const auto name_at = [&](std::size_t i) { return text(variable.words[i]); };
    refuse(variable.name, value, text("must be one of ", listed(count, count, name_at)));
  }
  return static_cast<std::size_t>(found - variable.words.begin());
}

std::string word(const VariableLookup& lookup, const Variable& variable) {
  return text(variable.words[word_index(lookup, variable)]);
}

std::string text_of(const VariableLookup& lookup, const Variable& variable) {
  return value_of(lookup, variable.name).value_or("");
}

// Ranks that are started by hand need none besides the place where they meet over UCX.
std::string job_id(const VariableLookup& lookup, const Environment& environment) {
  const auto value = value_of(lookup, variables::kJobId.name);
  const bool is_over_ucx = environment.transport == "ucx";
  if (!value && is_over_ucx && environment.rendezvous) {
    return text("rendezvous", environment.rendezvous->port);
  }
  if (!value) {
    if (environment.size > 1 && !is_over_ucx)
      refuse(variables::kJobId.name, "", "must be set when TNT_SIZE > 1");
    return {};
  }
  constexpr std::string_view kPlain =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const bool is_plain = value->find_first_not_of(kPlain) == std::string::npos;
  if (!is_plain || value->size() < 8 || value->size() > 32) {
    refuse(variables::kJobId.name, *value, "must be 8 to 32 letters and digits");
  }
  return *value;
}

// Numbers of neighbours that are combined one after the other, whose product is that of the ranks.
std::vector<int> sum_tree(const VariableLookup& lookup, int size) {
  const char* name = variables::kSumTree.name;
  const auto value = value_of(lookup, name);
  if (!value) return {};
  std::vector<int> counts;
  std::int64_t product = 1;
  for (std::size_t begin = 0; begin <= value->size();) {
    const std::size_t end = std::min(value->find('x', begin), value->size());
    const auto count = number_in<int>(value->substr(begin, end - begin));
    const bool is_count = count && *count >= 1;
    counts.push_back(is_count ? *count : 0);
    product = is_count && product <= size ? product * *count : 0;
    begin = end + 1;
  }
  if (product == size) return counts;
  refuse(name, *value,
         text("must be numbers with an x between two of them, such as 6x16, whose product is the"
              " number of ranks, ",
              size));
}

std::string timeline(const VariableLookup& lookup) {
  const char* name = variables::kTimeline.name;
  const auto value = value_of(lookup, name);
  if (value && value->empty()) refuse(name, *value, "must be the path of a file");
  return value.value_or("");
}

// Whoever knows it may take part. Not shown in errors.
std::string job_secret(const VariableLookup& lookup) {
  const Variable& variable = variables::kJobSecret;
  const auto value = value_of(lookup, variable.name);
  if (value && value->size() < variable.least_bytes) {
    refuse(variable.name, "...", text("must have ", variable.least_bytes, " characters or more"));
  }
  return value.value_or("");
}

std::optional<HostAndPort> rendezvous(const VariableLookup& lookup) {
  const auto value = value_of(lookup, variables::kRendezvous.name);
  if (!value) return std::nullopt;
  const auto parsed = parse_host_and_port(*value);
  if (!parsed)
    refuse(variables::kRendezvous.name, *value, "must be host:port, or [address]:port for IPv6");
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
  const bool has_blanks = value.find_first_of(kBlanks) != std::string::npos;
  const auto port = number_in<int>(value.substr(colon + 1));
  if (has_blanks || !port || *port < 1 || *port > 65535) return std::nullopt;
  result.port = *port;
  return result;
}

std::string text_of_counts(const std::vector<int>& counts) {
  if (counts.empty()) return "unset";
  std::string result;
  for (const int count : counts) result += text(result.empty() ? "" : "x", count);
  return result;
}

Environment parse_environment(const VariableLookup& lookup) {
  using namespace variables;
  constexpr int kMost = 1 << 20;
  for (const auto& [one, other] :
       {std::pair{kRank.name, kSize.name}, std::pair{kSize.name, kRank.name}}) {
    if (lookup(one) && !lookup(other)) refuse(other, "", text("must be set when ", one, " is"));
  }
  Environment result;
  const auto number = [&](const Variable& variable, int fallback, int lowest, int highest) {
    return integer(lookup, variable.name, fallback, lowest, highest);
  };
  result.size = number(kSize, 1, 1, kMost);
  result.rank = number(kRank, 0, 0, result.size - 1);
  result.local_size = number(kLocalSize, result.size, 1, result.size);
  result.local_rank = number(kLocalRank, result.rank % result.local_size, 0, result.local_size - 1);
  result.num_nodes = number(kNumNodes, 1, 1, result.size);
  result.node_rank = number(kNodeRank, 0, 0, result.num_nodes - 1);
  result.transport = word(lookup, kTransport);
  result.timeout_s = seconds(lookup, kTimeoutS, *number_in<double>(kTimeoutS.fallback));
  const double of_former_name =
      seconds(lookup, kStallReportS, *number_in<double>(kStallS.fallback));
  result.stall_report_s = seconds(lookup, kStallS, of_former_name);
  if (lookup(kStallS.name) || lookup(kStallReportS.name)) {
    result.start_report_s = result.stall_report_s;
  }
  result.allreduce_algorithm = word(lookup, kAllreduceAlgorithm);
  result.sum_tree = sum_tree(lookup, result.size);
  result.log_level = static_cast<LogLevel>(word_index(lookup, kLogLevel));
  result.gpi2_library = text_of(lookup, kGpi2Library);
  // The ports of a job are the 4 x 256 that begin here.
  result.gpi2_port = number(kGpi2Port, 0, kGpi2Port.minimum, kGpi2Port.maximum);
  result.gaspi_rank = optional_integer(lookup, "GASPI_RANK", kMost);
  result.gaspi_num_ranks = optional_integer(lookup, "GASPI_NRANKS", kMost);
  result.gaspi_socket = optional_integer(lookup, "GASPI_SOCKET", kMost);
  result.gaspi_machine_file = lookup("GASPI_MFILE").value_or("");
  result.ucx_library = text_of(lookup, kUcxLibrary);
  result.ucx_rdma = static_cast<RdmaUse>(word_index(lookup, kUcxRdma));
  result.cuda_library = text_of(lookup, kCudaLibrary);
  result.gpu_sums = static_cast<GpuSums>(word_index(lookup, kGpuSums));
  result.rendezvous = rendezvous(lookup);
  result.job_id = job_id(lookup, result);
  result.job_secret = job_secret(lookup);
  result.interface = text_of(lookup, kInterface);
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
