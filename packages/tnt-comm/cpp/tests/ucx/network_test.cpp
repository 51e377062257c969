#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {
namespace {

using PortNames = std::vector<std::string>;

UcxNetwork chosen(RdmaUse use, const PortNames& ports) {
  return choose_network(use, "eth0", [&] { return ports; });
}

/// The settings that a context would get.
std::map<std::string, std::string> settings_of(const UcxNetwork& network) {
  static std::map<std::string, std::string> settings;
  settings.clear();
  UcxLibrary library;
  library.minor = 22;
  library.functions.config_modify = [](ucx::Config*, const char* name, const char* value) {
    settings[name] = value;
    return ucx::kOk;
  };
  apply_settings(library, network, nullptr);
  return settings;
}

/// A variable of the user.
class UserVariable {
 public:
  UserVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~UserVariable() { ::unsetenv(name_); }
  UserVariable(const UserVariable&) = delete;
  UserVariable& operator=(const UserVariable&) = delete;

 private:
  const char* name_;
};

TEST(UcxNetworkOfAHost, HasRdmaWhereThereArePorts) {
  const UcxNetwork network = chosen(RdmaUse::automatic, {"mlx5_0:1", "mlx5_1:1"});
  EXPECT_TRUE(network.has_rdma);
  EXPECT_EQ(settings_of(network)["TLS"], "ib,tcp");
  EXPECT_EQ(settings_of(network)["NET_DEVICES"], "eth0,mlx5_0:1,mlx5_1:1");
}

TEST(UcxNetworkOfAHost, IsTcpWithoutPorts) {
  const UcxNetwork network = chosen(RdmaUse::automatic, {});
  EXPECT_FALSE(network.has_rdma);
  EXPECT_EQ(settings_of(network)["TLS"], "tcp");
  EXPECT_EQ(settings_of(network)["NET_DEVICES"], "eth0");
}

TEST(UcxNetworkOfAHost, HasEmulatedRdmaIfItIsOnAndThereAreNoPorts) {
  const UcxNetwork network = chosen(RdmaUse::on, {});
  EXPECT_TRUE(network.has_rdma);
  EXPECT_EQ(settings_of(network)["TLS"], "tcp");
  EXPECT_EQ(chosen(RdmaUse::on, {"mlx5_0:1"}).ports, PortNames{"mlx5_0:1"});
}

TEST(UcxNetworkOfAHost, IsTcpIfRdmaIsOff) {
  const UcxNetwork network = chosen(RdmaUse::off, {"mlx5_0:1"});
  EXPECT_FALSE(network.has_rdma);
  EXPECT_EQ(settings_of(network)["TLS"], "tcp");
}

TEST(UcxNetworkOfAHost, IsLeftToAUserWhoNamesTransportsOrDevices) {
  for (const char* name : {"UCX_TLS", "UCX_NET_DEVICES"}) {
    const UserVariable variable(name, "whatever");
    EXPECT_FALSE(chosen(RdmaUse::automatic, {"mlx5_0:1"}).has_rdma);
    EXPECT_TRUE(chosen(RdmaUse::on, {"mlx5_0:1"}).has_rdma);
    EXPECT_EQ(chosen(RdmaUse::on, {"mlx5_0:1"}).ports, PortNames{});
    EXPECT_EQ(settings_of(chosen(RdmaUse::on, {})).count(name + 4), 0U);
  }
}

}  // namespace
}  // namespace tnt::comm
