#include "tnt/comm/base/detachable_call.hpp"

#include <atomic>
#include <exception>
#include <utility>

#include "tnt/comm/base/thread.hpp"

namespace tnt::comm {

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
