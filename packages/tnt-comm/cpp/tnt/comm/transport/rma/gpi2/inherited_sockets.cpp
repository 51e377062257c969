#include "tnt/comm/transport/rma/gpi2/inherited_sockets.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace tnt::comm {
namespace {

struct OpenSocket {
  int descriptor;
  ino_t inode;  // the descriptor's number may come to mean something else
};

// Written once, before forks can happen that matter; read by forked children.
std::vector<OpenSocket>& adopted() {
  static auto* sockets = new std::vector<OpenSocket>();  // children may outlive static objects
  return *sockets;
}

std::vector<int> open_descriptors() {
  std::vector<int> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return result;
  while (const dirent* entry = ::readdir(folder.get())) {
    const int descriptor = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && descriptor != ::dirfd(folder.get())) {
      result.push_back(descriptor);
    }
  }
  return result;
}

void close_in_child() {
  for (const OpenSocket& socket : adopted()) {
    struct stat status {};
    const bool is_same = ::fstat(socket.descriptor, &status) == 0 && status.st_ino == socket.inode;
    if (is_same) ::close(socket.descriptor);
  }
}

}  // namespace

InheritedSockets::InheritedSockets() : descriptors_before_(open_descriptors()) {}

void InheritedSockets::adopt_new_ones() {
  for (const int descriptor : open_descriptors()) {
    struct stat status {};
    const bool is_old = std::find(descriptors_before_.begin(), descriptors_before_.end(),
                                  descriptor) != descriptors_before_.end();
    if (is_old || ::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    adopted().push_back({descriptor, status.st_ino});
  }
  ::pthread_atfork(nullptr, nullptr, close_in_child);
}

}  // namespace tnt::comm
