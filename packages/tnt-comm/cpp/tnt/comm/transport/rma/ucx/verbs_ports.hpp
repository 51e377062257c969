#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tnt::comm {

/// The ports over which this host can do RDMA by verbs, as UCX names them ("mlx5_0:1"), sorted:
/// the active ones of InfiniBand, and those of RoCE whose adapter is that of the network interface
/// `interface`. Others of Ethernet may be in networks that the other hosts are not in.
///
/// `sysfs`: where the kernel shows its devices.
std::vector<std::string> active_verbs_ports(const std::string& interface,
                                            const std::filesystem::path& sysfs = "/sys");

}  // namespace tnt::comm
