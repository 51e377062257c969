#include "tnt/comm/base/process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

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

std::string advice_for_limit(__rlimit_resource_t resource, const char* what) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) {
    return text("This process has no limit of ", what,
                ", so the limit of the host or container is reached");
  }
  return text("The limit of ", what, " is ", limit.rlim_cur, ": raise it");
}

const char* version() {
  return TNT_COMM_VERSION;
}

std::string build_name() {
  const bool is_little = std::endian::native == std::endian::little;
  return std::string("tnt-comm ") + version() + ", " + (is_little ? "little" : "big") + "-endian";
}

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::thread start_without_signals(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorKind::comm, "Cannot start the thread '", name, "': ", error.code().message(),
                ". ", advice_for_limit(RLIMIT_NPROC, "processes and threads (ulimit -u)"), ".");
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace tnt::comm
