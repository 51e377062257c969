#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace tnt::comm {
namespace {

namespace fs = std::filesystem;

/// A made-up /sys.
class VerbsPorts : public ::testing::Test {
 protected:
  ~VerbsPorts() override { fs::remove_all(sysfs_); }

  void add_port(const std::string& adapter, const std::string& number, const std::string& state,
                const std::string& link_layer) {
    const fs::path folder = sysfs_ / "class/infiniband" / adapter;
    fs::create_directories(folder / "ports" / number);
    std::ofstream(folder / "node_type") << "1: CA\n";
    std::ofstream(folder / "ports" / number / "state") << state << '\n';
    std::ofstream(folder / "ports" / number / "link_layer") << link_layer << '\n';
  }
  void add_interface(const std::string& name, const std::string& adapter) const {
    fs::create_directories(sysfs_ / "class/net" / name / "device/infiniband" / adapter);
  }
  std::vector<std::string> ports(const std::string& interface = "eth0") const {
    return active_verbs_ports(interface, sysfs_);
  }

  fs::path sysfs_ = fs::temp_directory_path() / ("tnt_sysfs_" + std::to_string(::getpid()));
};

using Ports = std::vector<std::string>;

TEST_F(VerbsPorts, AreNoneOnAHostWithoutAdapters) {
  EXPECT_EQ(ports(), Ports{});
  fs::create_directories(sysfs_ / "class/infiniband");
  EXPECT_EQ(ports(), Ports{});
}

TEST_F(VerbsPorts, OfInfiniBandAreThoseThatAreActive) {
  add_port("mlx5_1", "1", "4: ACTIVE", "InfiniBand");
  add_port("mlx5_0", "1", "1: DOWN", "InfiniBand");
  add_port("mlx5_0", "2", "4: ACTIVE", "InfiniBand");
  EXPECT_EQ(ports(), (Ports{"mlx5_0:2", "mlx5_1:1"}));
  EXPECT_EQ(ports(""), (Ports{"mlx5_0:2", "mlx5_1:1"}));
}

TEST_F(VerbsPorts, OfEthernetAreThoseOfTheInterfaceInUse) {
  add_port("mlx5_0", "1", "4: ACTIVE", "Ethernet");
  add_port("mlx5_1", "1", "4: ACTIVE", "Ethernet");
  add_interface("eth0", "mlx5_0");
  add_interface("eth1", "mlx5_1");
  EXPECT_EQ(ports("eth0"), Ports{"mlx5_0:1"});
  EXPECT_EQ(ports("eth1"), Ports{"mlx5_1:1"});
  EXPECT_EQ(ports("lo"), Ports{});
  EXPECT_EQ(ports(""), Ports{});
}

TEST_F(VerbsPorts, AreNotThoseOfIwarpOrOfAnUnknownKind) {
  add_port("irdma0", "1", "4: ACTIVE", "Ethernet");
  add_interface("eth0", "irdma0");
  std::ofstream(sysfs_ / "class/infiniband/irdma0/node_type") << "4: RNIC\n";
  add_port("efa_0", "1", "4: ACTIVE", "Unspecified");
  EXPECT_EQ(ports(), Ports{});
}

}  // namespace
}  // namespace tnt::comm
