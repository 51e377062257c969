#include "tnt/comm/base/thread.hpp"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

std::thread start(const char* name, std::function<void()> body, const sigset_t& signals) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    throw Error(ErrorKind::comm,
                text("Cannot start the thread '", name, "': ", error.code().message(), ". ",
                     advice_for_limit(RLIMIT_NPROC, "processes and threads (ulimit -u)"), "."));
  }
}

}  // namespace

std::thread start_without_signals(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread = start(name, std::move(body), before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

struct DetachableCall::Outcome {
  std::atomic<bool> is_known{false};
  std::exception_ptr error;
};

DetachableCall::DetachableCall(const char* name, std::function<void()> function)
    : outcome_(std::make_shared<Outcome>()) {
  thread_ = start_without_signals(name, [outcome = outcome_, function = std::move(function)] {
    try {
      function();
    } catch (...) {
      outcome->error = std::current_exception();
    }
    outcome->is_known.store(true);
  });
}

DetachableCall::~DetachableCall() {
  if (has_returned()) {
    if (thread_.joinable()) thread_.join();
  } else {
    thread_.detach();
  }
}

bool DetachableCall::has_returned() const {
  return outcome_->is_known.load();
}

void DetachableCall::get() {
  thread_.join();
  if (outcome_->error) std::rethrow_exception(outcome_->error);
}

}  // namespace tnt::comm
