#include "fake_cuda/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kTotalBytes = std::size_t{4} << 30;

// What stands in a handle.
struct Handle {
  static constexpr std::uint64_t kMagic = 0x7374616e642d696eU;
  std::uint64_t magic;
  std::uint64_t id;
  std::uint64_t num_bytes;
  std::int32_t process;
  std::int32_t descriptor;
  std::int32_t device;
};
static_assert(sizeof(Handle) <= sizeof(cuda::IpcMemory));

std::string name_of(std::uint64_t id) {
  return text("fake-cuda-", id);
}

// Of another process; negative if it is no such memory any more.
int open_descriptor(const Handle& handle) {
  const std::string path = text("/proc/", handle.process, "/fd/", handle.descriptor);
  std::array<char, 256> target{};
  if (::readlink(path.c_str(), target.data(), target.size() - 1) < 0) return -1;
  if (text("/memfd:", name_of(handle.id), " (deleted)") != target.data()) return -1;
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

Mapping::Mapping(int of, std::size_t size)
    : descriptor(of),
      num_bytes(size),
      begin(static_cast<std::byte*>(
          ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, of, 0))) {
  if (begin == MAP_FAILED) throw std::bad_alloc();
}

Mapping::~Mapping() {
  ::munmap(begin, num_bytes);
  ::close(descriptor);
}

cuda::Pointer Memory::add(Block block) {
  const cuda::Pointer pointer = next_;
  // Nothing is behind its end.
  next_ += (block.num_bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
  blocks_.emplace(pointer, std::move(block));
  return pointer;
}

cuda::Result Memory::allocate(int device, std::size_t num_bytes, cuda::Pointer* pointer) {
  if (num_bytes == 0) return cuda::kInvalidValue;
  static std::atomic<std::uint64_t> num_ids{0};
  const std::uint64_t id = (static_cast<std::uint64_t>(::getpid()) << 32) +
                           num_ids.fetch_add(1, std::memory_order_relaxed);
  const std::unique_lock lock(mutex_);
  if (num_allocated_bytes_ + num_bytes > kTotalBytes) return cuda::kOutOfMemory;
  const int descriptor = ::memfd_create(name_of(id).c_str(), MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(num_bytes)) != 0) {
    return cuda::kOutOfMemory;
  }
  auto mapping = std::make_shared<Mapping>(descriptor, num_bytes);
  std::memset(mapping->begin, 0xa5, num_bytes);  // nobody may rely on what is there
  num_allocated_bytes_ += num_bytes;
  *pointer = add({std::move(mapping), num_bytes, device, false, id});
  return cuda::kSuccess;
}

cuda::Result Memory::remove(cuda::Pointer pointer, bool is_opened) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end() || found->second.is_opened != is_opened) return cuda::kInvalidValue;
  if (!is_opened) num_allocated_bytes_ -= found->second.num_bytes;
  blocks_.erase(found);
  return cuda::kSuccess;
}

cuda::Result Memory::free(cuda::Pointer pointer) {
  return remove(pointer, false);
}

cuda::Result Memory::close(cuda::Pointer pointer) {
  return remove(pointer, true);
}

cuda::Result Memory::handle_of(cuda::Pointer pointer, cuda::IpcMemory* memory) const {
  const std::shared_lock lock(mutex_);
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end() || found->second.is_opened) return cuda::kInvalidValue;
  const Block& block = found->second;
  const Handle handle{
      Handle::kMagic, block.id, block.num_bytes, ::getpid(), block.mapping->descriptor,
      block.device};
  *memory = {};
  std::memcpy(memory->bytes.data(), &handle, sizeof handle);
  return cuda::kSuccess;
}

cuda::Result Memory::open(const cuda::IpcMemory& memory, unsigned reachable,
                          cuda::Pointer* pointer) {
  Handle handle{};
  std::memcpy(&handle, memory.bytes.data(), sizeof handle);
  if (handle.magic != Handle::kMagic) return cuda::kInvalidValue;
  if ((reachable >> handle.device & 1U) == 0) return cuda::kPeerAccessUnsupported;
  const std::unique_lock lock(mutex_);
  std::shared_ptr<Mapping> mapping;
  if (handle.process == ::getpid()) {
    // The very same addresses: ThreadSanitizer knows those of other mappings as other memory.
    for (const auto& [address, block] : blocks_) {
      if (block.id == handle.id) mapping = block.mapping;
    }
  } else if (const int descriptor = open_descriptor(handle); descriptor >= 0) {
    mapping = std::make_shared<Mapping>(descriptor, handle.num_bytes);
  }
  if (mapping == nullptr) return cuda::kInvalidHandle;
  *pointer = add({std::move(mapping), handle.num_bytes, handle.device, true, handle.id});
  return cuda::kSuccess;
}

Memory::Place Memory::find(cuda::Pointer pointer, std::size_t num_bytes) const {
  const std::shared_lock lock(mutex_);
  auto behind = blocks_.upper_bound(pointer);
  if (behind == blocks_.begin()) return {};
  const auto& [begin, block] = *--behind;
  const std::size_t offset = pointer - begin;
  if (offset > block.num_bytes || num_bytes > block.num_bytes - offset) return {};
  return {block.mapping->begin + offset, block.device, block.is_opened};
}

cuda::Result Memory::register_host(void* begin, std::size_t num_bytes) {
  if (num_bytes == 0) return cuda::kInvalidValue;
  if (kind_of(begin, num_bytes) != HostKind::pageable) return cuda::kAlreadyRegistered;
  const std::unique_lock lock(mutex_);
  registered_.emplace(reinterpret_cast<std::uintptr_t>(begin), num_bytes);
  return cuda::kSuccess;
}

cuda::Result Memory::unregister_host(void* begin) {
  const std::unique_lock lock(mutex_);
  const bool was_there = registered_.erase(reinterpret_cast<std::uintptr_t>(begin)) != 0;
  return was_there ? cuda::kSuccess : cuda::kNotRegistered;
}

Memory::HostKind Memory::kind_of(const void* from, std::size_t num_bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t end = begin + num_bytes;
  const std::shared_lock lock(mutex_);
  for (const auto& [first, length] : registered_) {
    if (first <= begin && end <= first + length) return HostKind::registered;
    if (first < end && begin < first + length) return HostKind::partly_registered;
  }
  return HostKind::pageable;
}

std::size_t Memory::num_left() const {
  const std::shared_lock lock(mutex_);
  return blocks_.size() + registered_.size();
}

void Memory::clear() {
  const std::unique_lock lock(mutex_);
  blocks_.clear();
  registered_.clear();
  num_allocated_bytes_ = 0;
}

}  // namespace tnt::comm::tests::fake_cuda
