// What is read from the environment and from files.

#include <cstdio>
#include <fstream>
#include <map>
#include <optional>

#include "fuzz.hpp"
#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"

namespace tnt::comm::tests {
namespace {

TEST(Fuzz, EnvironmentVariables) {
  const std::map<std::string, std::string> valid = {
      {"TNT_RANK", "1"},          {"TNT_SIZE", "4"},
      {"TNT_LOCAL_RANK", "1"},    {"TNT_LOCAL_SIZE", "2"},
      {"TNT_NODE_RANK", "0"},     {"TNT_NUM_NODES", "2"},
      {"TNT_JOB_ID", "abcdef12"}, {"TNT_TRANSPORT", "gpi2"},
      {"TNT_TIMEOUT_S", "12.5"},  {"TNT_STALL_S", "1e1"},
      {"TNT_LOG_LEVEL", "debug"}, {"TNT_ALLREDUCE_ALGORITHM", "two_shot"},
      {"TNT_GPI2_PORT", "20000"}, {"TNT_TIMELINE", "/tmp/x"},
      {"GASPI_RANK", "1"},        {"GASPI_NRANKS", "4"},
      {"GASPI_SOCKET", "0"},      {"GASPI_MFILE", "/tmp/machines"}};
  fuzz([&](Mutator& mutator) {
    auto variables = valid;
    for (std::size_t changes = 1 + mutator.below(3); changes > 0; --changes) {
      auto& one = *std::next(variables.begin(), static_cast<int>(mutator.below(valid.size())));
      one.second = mutator.changed(one.second);
    }
    const Environment environment =
        parse_environment([&](const char* name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        });
    EXPECT_LT(environment.rank, environment.size);
    EXPECT_LT(environment.local_rank, environment.local_size);
    EXPECT_GT(environment.timeout_s, 0);
    EXPECT_GT(Deadline(environment.timeout_s).end(), Clock::now());
    parse_allreduce_algorithm(environment.allreduce_algorithm);
  });
}

TEST(Fuzz, MachineFile) {
  fuzz([](Mutator& mutator) {
    const int size = 3;
    const auto addresses = parse_machine_file(mutator.changed("node1\nnode1\n10.0.0.2\n"), size);
    EXPECT_EQ(addresses.size(), static_cast<std::size_t>(size));
  });
}

TEST(Fuzz, FileOfARankThatHasEnded) {
  const std::string job_id = text("fuzzended", ::getpid());
  const std::string path = text("/dev/shm/tnt-", job_id, "-ended-1");
  const EndedRanks ranks(job_id, 0);
  fuzz([&](Mutator& mutator) {
    std::ofstream(path) << mutator.changed("exit code 1\n");
    const std::optional<std::string> end = ranks.end_of(1);
    ASSERT_TRUE(end);
    EXPECT_LE(end->size(), 200U);
  });
  std::remove(path.c_str());
}

std::array<std::byte, kMostConfigBytes> config_bytes;

TEST(Fuzz, SettingsOfGpi2) {
  fuzz([](Mutator& mutator) {
    const GaspiLayout& layout = kGaspiLayouts[mutator.below(kGaspiLayouts.size())];
    GaspiLibrary library;
    library.layout = &layout;
    library.functions.config_get = [](void* config) {
      std::memcpy(config, config_bytes.data(), config_bytes.size());
      return 0;
    };
    const auto set = [](std::size_t offset, std::uint32_t value) {
      std::memcpy(config_bytes.data() + offset, &value, sizeof value);
    };
    config_bytes = {};
    set(layout.sn_port, 12121);
    set(layout.tcp_port, 19000);
    set(layout.network, 2);
    set(layout.queue_size_max, 1024);
    set(layout.queue_num, 8);
    set(layout.segment_max, 32);
    set(layout.notification_num, 65536);
    mutator.change(config_bytes.data(), layout.config_bytes);
    const GaspiSettings settings = read_gaspi_settings(library);
    EXPECT_GE(settings.num_queues, 2);
    for (const int port : ports_to_listen(library, 255)) EXPECT_GT(port, 0);
    EXPECT_GT(first_presence_port(library), 0);
  });
}

}  // namespace
}  // namespace tnt::comm::tests
