#include "tnt/comm/transport/shm/shared_memory.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr double kMiB = 1024.0 * 1024.0;

std::string advice_for(int error_number) {
  if (error_number == EMFILE) {
    return text(". ", advice_for_limit(RLIMIT_NOFILE, "open files (ulimit -n)"));
  }
  if (error_number == ENOMEM) {
    return text(". ", advice_for_limit(RLIMIT_AS, "address space (ulimit -v)"));
  }
  if (error_number == EFBIG) {
    return text(". ", advice_for_limit(RLIMIT_FSIZE, "bytes in a file (ulimit -f)"));
  }
  if (error_number == EROFS || error_number == ENOENT) {
    return ". The ranks of a host need a file system in memory at /dev/shm that they can write to:"
           " mount one there (in containers: docker run --tmpfs /dev/shm)";
  }
  if (error_number != EEXIST) return "";
  return ". Another job with the same TNT_JOB_ID runs on this host, or left this name behind;"
         " use another job id or remove it from /dev/shm";
}

[[noreturn]] void fail(const std::string& name, const char* action, int error_number) {
  throw Error(ErrorKind::comm, "Cannot ", action, " shared memory '", name,
              "': ", std::strerror(error_number), advice_for(error_number), ".");
}

// Whoever has made it, or may write into it, could give this process any values.
void require_private(const std::string& name, const struct stat& status) {
  const bool is_own = status.st_uid == ::geteuid();
  if (is_own && (status.st_mode & ~kOwnerOnly & 0777) == 0) return;
  throw Error(ErrorKind::comm, "Shared memory '", name, "' is not this job's: it ",
              is_own ? "can be used by other users" : text("belongs to user ", status.st_uid),
              ". Remove it from /dev/shm, or use another TNT_JOB_ID.");
}

std::string advice_for_free_space() {
  const char* const advice =
      ". Make /dev/shm larger (in containers: docker run --shm-size=...), or use fewer ranks on"
      " this host";
  struct statvfs status {};
  if (::statvfs("/dev/shm", &status) != 0) return advice;
  const auto block_mib = static_cast<double>(status.f_frsize) / kMiB;
  return text("; /dev/shm has ", static_cast<double>(status.f_bavail) * block_mib, " MiB free of ",
              static_cast<double>(status.f_blocks) * block_mib, advice);
}

/// All shared memory of this process. In a forked child it becomes private, so that nothing that
/// the child does with its copies of our objects, or arrays, reaches the parent's.
struct Mappings {
  struct Mapping {
    std::size_t num_bytes;
    int descriptor;
  };
  std::mutex mutex;  // around a fork: no other thread may be halfway, as the child does not have it
  std::map<void*, Mapping> by_address;

  void become_private() {
    for (const auto& [address, mapping] : by_address) {
      const void* remapped = ::mmap(address, mapping.num_bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_FIXED, mapping.descriptor, 0);
      // Better no memory than the parent's.
      if (remapped == MAP_FAILED) ::munmap(address, mapping.num_bytes);
    }
  }
};

// Never destroyed: objects may outlive everything else at exit.
Mappings& mappings() {
  static Mappings* all = [] {
    auto* made = new Mappings();
    ::pthread_atfork([] { mappings().mutex.lock(); }, [] { mappings().mutex.unlock(); },
                     [] {
                       mappings().become_private();
                       mappings().mutex.unlock();
                     });
    return made;
  }();
  return *all;
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

std::optional<std::size_t> SharedMemory::try_open_private(const std::string& name) {
  descriptor_ = ::shm_open(name.c_str(), O_RDWR, kOwnerOnly);
  if (descriptor_ < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail(name, "open", errno);
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(name, "inspect", errno);
  require_private(name, status);
  return static_cast<std::size_t>(status.st_size);
}

std::string SharedMemory::beginning_of(const std::string& name, std::size_t num_bytes) {
  SharedMemory memory;
  std::string result(num_bytes, '\0');
  if (!memory.try_open_private(name)) return {};
  // The first byte is written last, so it is read first.
  if (::pread(memory.descriptor_, result.data(), 1, 0) != 1 || result[0] == '\0') return {};
  const ssize_t count = ::pread(memory.descriptor_, result.data(), num_bytes, 0);
  result.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return result.substr(0, result.find('\0'));
}

bool SharedMemory::try_open(const std::string& name, std::size_t num_bytes, SharedMemory& result) {
  SharedMemory memory;
  const std::optional<std::size_t> size = memory.try_open_private(name);
  if (!size || *size == 0) return false;  // not there, or not yet sized
  if (*size != num_bytes) {
    throw Error(ErrorKind::mismatch, "Shared memory '", name, "' has ", *size,
                " bytes, but this rank expects ", num_bytes,
                ": the ranks do not create the same object, or it is a leftover.");
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
  const std::lock_guard lock(mappings().mutex);
  mappings().by_address[address] = {num_bytes, descriptor_};
}

void SharedMemory::reserve(int rank, std::size_t offset, std::size_t num_bytes) const {
  if (num_bytes == 0) return;
  int error = EINTR;
  while (error == EINTR) {
    error =
        ::posix_fallocate(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(num_bytes));
  }
  if (error == 0) return;
  throw Error(ErrorKind::comm, "rank ", rank, ": cannot reserve ",
              static_cast<double>(size_) / kMiB, " MiB of shared memory: ", std::strerror(error),
              error == EFBIG ? advice_for(error) : advice_for_free_space(), ".");
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) {
    const std::lock_guard lock(mappings().mutex);
    mappings().by_address.erase(data_);
    ::munmap(data_, size_);
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tnt::comm
