#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <optional>
#include <string>

namespace tnt::comm {

/// One mapped POSIX shared memory object, mode 0600.
///
/// Unmapped by the destructor; the name is removed by unlink() only, the memory lives on until the
/// last process has unmapped it. A forked child has a copy of its own, as of all other memory (made
/// page by page, when the child writes); that takes a file descriptor as long as the object lives.
class SharedMemory {
 public:
  /// Creates the object exclusively; an existing name is a CommError, since it
  /// belongs to somebody else. The memory is zero but not yet reserved.
  static SharedMemory create(const std::string& name, std::size_t num_bytes);

  /// True and the mapped object if it exists and has its full size already. Another size than
  /// `num_bytes` is a CommError, and so is memory that another user has made or can use.
  static bool try_open(const std::string& name, std::size_t num_bytes, SharedMemory& result);

  /// The text with which an object begins, up to `num_bytes` or a zero; empty while the
  /// object does not exist or its first byte is zero. CommError as above.
  static std::string beginning_of(const std::string& name, std::size_t num_bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int descriptor() const { return descriptor_; }

  /// Makes sure that the range has memory behind it; without this a full /dev/shm would be a SIGBUS
  /// later. Otherwise a CommError of this rank: what was asked for, what is free, what to do.
  void reserve(int rank, std::size_t offset, std::size_t num_bytes) const;
  static void unlink(const std::string& name) noexcept { ::shm_unlink(name.c_str()); }

 private:
  // Its size, which is 0 at first; nothing if it does not exist.
  std::optional<std::size_t> try_open_private(const std::string& name);
  void swap(SharedMemory& other) noexcept;
  void map(const std::string& name, std::size_t num_bytes);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tnt::comm
