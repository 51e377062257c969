// Makes a libcuda.so.1 of the stand-in, which takes its settings from variables.

#include <cstdlib>
#include <sstream>
#include <string>

#include "fake_cuda/settings.hpp"
#include "fake_cuda/streams.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

std::string text_in(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value == nullptr ? fallback : value;
}

int number_in(const char* variable, const char* fallback) {
  return std::stoi(text_in(variable, fallback));
}

// "01,10": a row for each device, with a 1 for each that it reaches.
void apply_peers(const std::string& rows) {
  std::istringstream stream(rows);
  std::string row;
  for (int from = 0; std::getline(stream, row, ','); ++from) {
    unsigned reachable = 0;
    for (std::size_t to = 0; to < row.size(); ++to) {
      if (row[to] == '1') reachable |= 1U << to;
    }
    apply_reach(from, reachable);
  }
}

// "cuMemAlloc_v2:3:2,cuStreamCreate:1:999": the third call gives 2.
void apply_failures(const std::string& all) {
  std::istringstream stream(all);
  std::string one;
  while (std::getline(stream, one, ',')) {
    const std::size_t first = one.find(':'), second = one.find(':', first + 1);
    apply_failure(one.substr(0, first).c_str(), std::stoi(one.substr(first + 1)),
                  std::stoi(one.substr(second + 1)));
  }
}

[[gnu::constructor]] void apply_variables() {
  apply_number_of_devices(number_in("FAKE_CUDA_DEVICES", "1"), number_in("FAKE_CUDA_FIRST", "0"));
  apply_peers(text_in("FAKE_CUDA_PEERS", ""));
  apply_version(number_in("FAKE_CUDA_VERSION", "13000"));
  apply_seed(static_cast<unsigned>(number_in("FAKE_CUDA_SEED", "1")));
  apply_failures(text_in("FAKE_CUDA_FAIL", ""));
  course().longest_delay_us = number_in("FAKE_CUDA_DELAY_US", "0");
  course().num_until_hung = number_in("FAKE_CUDA_HANG_AT", "-1");
}

}  // namespace
}  // namespace tnt::comm::tests::fake_cuda
