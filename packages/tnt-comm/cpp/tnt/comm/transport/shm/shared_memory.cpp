#include "tnt/comm/transport/shm/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

constexpr mode_t kOwnerOnly = 0600;

[[noreturn]] void fail(const std::string& name, const char* action, int error_number) {
  std::string advice;
  if (error_number == EEXIST) {
    advice =
        ". Another job with the same TNT_JOB_ID runs on this host, or left this name behind;"
        " use another job id or remove it from /dev/shm";
  }
  throw Error(ErrorKind::comm, text("Cannot ", action, " shared memory '", name,
                                    "': ", std::strerror(error_number), advice, "."));
}

}  // namespace

SharedMemory SharedMemory::create(const std::string& name, std::size_t num_bytes) {
  SharedMemory memory;
  memory.descriptor_ = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, kOwnerOnly);
  if (memory.descriptor_ < 0) fail(name, "create", errno);
  if (::ftruncate(memory.descriptor_, static_cast<off_t>(num_bytes)) != 0) {
    const int error_number = errno;
    unlink(name);
    fail(name, "size", error_number);
  }
  memory.map(name, num_bytes);
  return memory;
}

bool SharedMemory::try_open(const std::string& name, std::size_t num_bytes, SharedMemory& result) {
  SharedMemory memory;
  memory.descriptor_ = ::shm_open(name.c_str(), O_RDWR, kOwnerOnly);
  if (memory.descriptor_ < 0) {
    if (errno == ENOENT) return false;
    fail(name, "open", errno);
  }
  struct stat status {};
  if (::fstat(memory.descriptor_, &status) != 0) fail(name, "inspect", errno);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return false;  // created, not yet sized
  if (size != num_bytes) {
    throw Error(ErrorKind::mismatch,
                text("Shared memory '", name, "' has ", size, " bytes where this rank expects ",
                     num_bytes, ": the ranks do not create the same object, or it is a leftover."));
  }
  memory.map(name, num_bytes);
  result = std::move(memory);
  return true;
}

void SharedMemory::map(const std::string& name, std::size_t num_bytes) {
  void* address = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) fail(name, "map", errno);
  data_ = static_cast<std::byte*>(address);
  size_ = num_bytes;
}

int SharedMemory::reserve(std::size_t offset, std::size_t num_bytes) const {
  if (num_bytes == 0) return 0;
  int result = EINTR;
  while (result == EINTR) {
    result =
        ::posix_fallocate(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(num_bytes));
  }
  return result;
}

void SharedMemory::close_descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void SharedMemory::unlink(const std::string& name) noexcept {
  ::shm_unlink(name.c_str());
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  close_descriptor();
}

std::string describe_reserve_error(int error_number, std::size_t num_bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::string free_space;
  struct statvfs status {};
  if (::statvfs("/dev/shm", &status) == 0) {
    const auto free_bytes =
        static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
    const auto all_bytes =
        static_cast<double>(status.f_blocks) * static_cast<double>(status.f_frsize);
    free_space = text("; /dev/shm has ", free_bytes / kMiB, " MiB free of ", all_bytes / kMiB);
  }
  return text("cannot reserve ", static_cast<double>(num_bytes) / kMiB,
              " MiB of shared memory: ", std::strerror(error_number), free_space,
              ". Make /dev/shm larger (in containers: docker run --shm-size=...), or use fewer"
              " ranks on this host");
}

}  // namespace tnt::comm
