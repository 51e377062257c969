#include "tnt/comm/base/forked_child.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

std::atomic<bool> is_fork{false};

}  // namespace

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, [] { is_fork.store(true); }); });
}

bool is_forked_child() noexcept {
  return is_fork.load(std::memory_order_relaxed);
}

void refuse_forked_child() {
  if (!is_forked_child()) return;
  throw UsageError(
      "This process was forked from one that uses tnt_comm, whose progress thread and"
      " identity it does not have. Start processes with subprocess or"
      " multiprocessing's 'spawn' method instead.");
}

}  // namespace tnt::comm
