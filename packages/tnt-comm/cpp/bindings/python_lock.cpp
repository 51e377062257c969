#include "python_lock.hpp"

#include <unistd.h>

namespace tnt::comm::bindings {
namespace {

// While a thread takes the lock. Destroyed with `is_taken` unset, it is by an unwinding stack.
struct StopInsteadOfUnwinding {
  bool is_taken = false;
  ~StopInsteadOfUnwinding() {
    while (!is_taken) ::pause();
  }
};

// Functions of their own, and not inline: in a destructor, which must not throw, compilers end the
// process at once.
[[gnu::noinline]] void take_back(PyThreadState* state) {
  StopInsteadOfUnwinding stop;
  PyEval_RestoreThread(state);
  stop.is_taken = true;
}

[[gnu::noinline]] PyGILState_STATE take() {
  StopInsteadOfUnwinding stop;
  const PyGILState_STATE state = PyGILState_Ensure();
  stop.is_taken = true;
  return state;
}

}  // namespace

Unlocked::~Unlocked() {
  if (state_ != nullptr) take_back(state_);
}

Locked::Locked() : state_(take()) {}

}  // namespace tnt::comm::bindings
