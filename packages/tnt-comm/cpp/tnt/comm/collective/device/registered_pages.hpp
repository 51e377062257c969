#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "tnt/comm/device/device.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Pages of the host that a GPU copies from and to, registered with its driver: those of several
/// pieces of memory, which may share pages, and which are kept as long as this lives.
///
/// Forked children do not get these pages, which must be the pieces' own. If they had them, the
/// next write of this process would go to a copy, while the GPU has the page that was registered;
/// Linux from 5.12 on, which knows that, would copy all of them for each child.
class RegisteredPages {
 public:
  /// CommError if the driver refuses; then nothing is registered.
  RegisteredPages(const std::shared_ptr<Device>& device, std::vector<HostMemory> pieces);

 private:
  class Range {
   public:
    Range(const std::shared_ptr<Device>& device, void* begin, std::size_t num_bytes);
    ~Range();
    Range(Range&&) = delete;

   private:
    void* begin_;
    std::size_t num_bytes_;
    PinnedMemory pinned_;
  };

  std::vector<HostMemory> pieces_;  // goes after what is registered of it
  std::deque<Range> registered_;
};

}  // namespace tnt::comm
