#include "tnt/comm/transport/rma/network_library.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

std::string folder_of_pkg_config(const char* package) {
  const std::string command = text("pkg-config --variable=libdir ", package, " 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 4096> line{};
  if (!output || std::fgets(line.data(), line.size(), output.get()) == nullptr) return {};
  std::string folder = line.data();
  while (!folder.empty() && (folder.back() == '\n' || folder.back() == ' ')) folder.pop_back();
  return folder;
}

namespace {

// Sockets that children must not keep. No child is forked while they change.
struct Adopted {
  std::mutex mutex;
  OpenSockets sockets;
};

Adopted& adopted() {
  static auto* adopted = new Adopted();  // children may outlive static objects
  return *adopted;
}

// No socket, and so no number, if the descriptor is of something else.
ino_t inode_of_socket(int descriptor) {
  struct stat status {};
  const bool is_socket = ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
  return is_socket ? status.st_ino : 0;
}

void close_in_child() {
  for (const auto& [descriptor, inode] : adopted().sockets) {
    if (inode_of_socket(descriptor) == inode) ::close(descriptor);
  }
  adopted().mutex.unlock();
}

void close_in_children() {
  static std::once_flag is_done;
  std::call_once(is_done, [] {
    ::pthread_atfork([] { adopted().mutex.lock(); }, [] { adopted().mutex.unlock(); },
                     close_in_child);
  });
}

}  // namespace

std::vector<int> open_descriptors() {
  std::vector<int> result;
  std::error_code error;  // ends the list
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    result.push_back(std::atoi(entry->path().filename().c_str()));
  }
  return result;
}

OpenSockets open_sockets() {
  OpenSockets result;
  for (const int descriptor : open_descriptors()) {
    if (const ino_t inode = inode_of_socket(descriptor)) result.insert({descriptor, inode});
  }
  return result;
}

void require_descriptors(const std::string& engine, int rank, int size) {
  // As measured with GPI-2 and the presence of ranks; UCX and the bootstrap have no more.
  constexpr rlim_t kMost = 40, kOfRank = 3;
  const rlim_t needed = open_descriptors().size() + kMost + kOfRank * static_cast<rlim_t>(size);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max >= needed && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw Error(ErrorKind::comm, "rank ", rank, ": ", engine, " cannot be started among ", size,
              " ranks with fewer than ", needed, " open files. ",
              advice_for_limit(RLIMIT_NOFILE, "open files (ulimit -n)"), ".");
}

void keep_new_sockets_from_children(const OpenSockets& sockets_before) {
  close_in_children();
  const OpenSockets sockets = open_sockets();
  const std::lock_guard lock(adopted().mutex);
  for (const auto& socket : sockets) {
    if (sockets_before.contains(socket)) continue;
    ::fcntl(socket.first, F_SETFD, FD_CLOEXEC);
    adopted().sockets.insert(socket);
  }
}

}  // namespace tnt::comm
