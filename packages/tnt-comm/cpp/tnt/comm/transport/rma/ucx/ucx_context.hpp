#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "tnt/comm/transport/rma/ucx/ucx_network.hpp"

namespace tnt::comm {

/// Memory of this rank that network adapters know.
struct RegisteredMemory {
  ucx::Memory handle = nullptr;
  std::string remote_key;  ///< packed: by which another rank can write there
};

/// UCX' settings and network adapters in this process.
///
/// Threads: one at a time, as for its worker.
class UcxContext {
 public:
  /// For as many ranks; CommError. `library` must stay.
  UcxContext(const UcxLibrary& library, const UcxNetwork& network, int rank, int size);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucx::Context handle() const { return handle_; }

  /// Nothing if that fails: adapters limit how much memory they take, and so does the kernel.
  std::optional<RegisteredMemory> register_memory(void* address, std::size_t num_bytes);
  /// Also done at the end, when the worker has ended.
  void deregister(const RegisteredMemory& memory);

 private:
  const ucx::Functions& functions_;
  ucx::Context handle_ = nullptr;
  std::set<ucx::Memory> registered_;
};

}  // namespace tnt::comm
