#include "tnt/comm/base/thread.hpp"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace tnt::comm {

std::thread start_without_signals(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace tnt::comm
