#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/device/device.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Pages of the host that a GPU copies from and to, registered with its driver: those of several
/// pieces of memory, which may share pages, and which are kept as long as this lives.
class RegisteredPages {
 public:
  /// CommError if the driver refuses; then nothing is registered.
  RegisteredPages(const std::shared_ptr<Device>& device, std::vector<HostMemory> pieces);

 private:
  std::vector<HostMemory> pieces_;  // goes after what is registered of it
  std::vector<std::unique_ptr<PinnedMemory>> registered_;
};

}  // namespace tnt::comm
