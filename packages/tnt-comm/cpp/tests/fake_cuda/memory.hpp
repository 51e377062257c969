#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::tests::fake_cuda {

/// Memory that several processes can map.
struct Mapping {
  /// Of `descriptor`, which it closes.
  Mapping(int descriptor, std::size_t num_bytes);
  ~Mapping();
  Mapping(Mapping&&) = delete;

  int descriptor;
  std::size_t num_bytes;
  std::byte* begin;
};

/// The memory of all GPUs, and what they know of the host's.
///
/// Who only looks something up is not ordered by that against others, as by reading of a
/// std::shared_mutex.
class Memory {
 public:
  cuda::Result allocate(int device, std::size_t num_bytes, cuda::Pointer* pointer);
  cuda::Result free(cuda::Pointer pointer);
  cuda::Result handle_of(cuda::Pointer pointer, cuda::IpcMemory* handle) const;
  /// For a device that reaches those of the bits of `reachable`.
  cuda::Result open(const cuda::IpcMemory& handle, unsigned reachable, cuda::Pointer* pointer);
  cuda::Result close(cuda::Pointer pointer);

  /// Where such bytes are; null unless all lie in one allocation.
  struct Place {
    std::byte* bytes = nullptr;
    int device = 0;
    bool is_opened = false;  ///< by a handle
  };
  Place find(cuda::Pointer pointer, std::size_t num_bytes) const;

  cuda::Result register_host(void* begin, std::size_t num_bytes);
  cuda::Result unregister_host(void* begin);

  enum class HostKind { pageable, registered, partly_registered };
  HostKind kind_of(const void* begin, std::size_t num_bytes) const;

  std::size_t num_left() const;
  void clear();

 private:
  struct Block {
    std::shared_ptr<Mapping> mapping;
    std::size_t num_bytes;
    int device;
    bool is_opened;
    std::uint64_t id;
  };
  using Blocks = std::map<cuda::Pointer, Block>;

  cuda::Pointer add(Block block);
  cuda::Result remove(cuda::Pointer pointer, bool is_opened);

  mutable std::shared_mutex mutex_;
  Blocks blocks_;
  std::map<std::uintptr_t, std::size_t> registered_;
  // No address of processes of x86-64 and aarch64, which have zeros or ones in the bits above 48.
  static constexpr cuda::Pointer kFirst = cuda::Pointer{1} << 52;
  cuda::Pointer next_ = kFirst;
  std::size_t num_allocated_bytes_ = 0;
};

}  // namespace tnt::comm::tests::fake_cuda
