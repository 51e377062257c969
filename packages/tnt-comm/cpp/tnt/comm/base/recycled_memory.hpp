#pragma once

#include <chrono>
#include <cstddef>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

/// Memory for the result of a collective, which is used again for later ones.
///
/// The kernel hands out large memory page by page, as it is touched first, and fills it with zeros;
/// a large result takes as long to be computed. So memory that an object gives back is kept for the
/// next one that needs as much, or up to a quarter less. At most `kMostIdleBytes` are kept, or as
/// much as has been in use at once if that is more; what was given back first goes first.
///
/// It is kept while there is a Keeper. Small memory, from malloc, never is. Contents are arbitrary.
///
/// Threads: all functions may be called from any thread, also in forked
/// children, which begin without kept memory and without a Keeper.
class TNT_COMM_EXPORT RecycledMemory {
 public:
  static constexpr std::size_t kSmallestKeptBytes = 64 * 1024;
  static constexpr std::size_t kMostIdleBytes = 256 * 1024 * 1024;

  RecycledMemory() = default;
  /// std::bad_alloc if there is not so much.
  explicit RecycledMemory(std::size_t num_bytes);
  ~RecycledMemory();
  RecycledMemory(RecycledMemory&& other) noexcept { swap(other); }
  RecycledMemory& operator=(RecycledMemory&& other) noexcept {
    RecycledMemory(std::move(other)).swap(*this);
    return *this;
  }

  /// Aligned for every type; large memory to pages. Null if there are no bytes.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  static std::size_t num_idle_bytes();

  /// While there are any, memory is kept.
  class TNT_COMM_EXPORT Keeper {
   public:
    Keeper();
    ~Keeper();
    Keeper(Keeper&&) = delete;

    /// Returns to the kernel what nobody has used for so long.
    void release_unused(std::chrono::milliseconds age);
  };

 private:
  void swap(RecycledMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // of large memory
};

}  // namespace tnt::comm
