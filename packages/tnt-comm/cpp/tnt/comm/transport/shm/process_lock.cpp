#include "tnt/comm/transport/shm/process_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tnt::comm {
namespace {

struct flock one_byte(int index) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = index;
  range.l_len = 1;
  return range;
}

}  // namespace

bool try_lock_byte(int descriptor, int index) {
  struct flock range = one_byte(index);
  return ::fcntl(descriptor, F_SETLK, &range) == 0;
}

bool is_byte_locked_by_other(int descriptor, int index) {
  struct flock range = one_byte(index);
  // If the question cannot be asked, assume life: deadlines still end waits.
  if (::fcntl(descriptor, F_GETLK, &range) != 0) return true;
  return range.l_type != F_UNLCK;
}

}  // namespace tnt::comm
