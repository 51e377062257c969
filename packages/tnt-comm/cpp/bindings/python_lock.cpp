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

}  // namespace

Unlocked::~Unlocked() {
  StopInsteadOfUnwinding stop;
  PyEval_RestoreThread(state_);
  stop.is_taken = true;
}

Locked::Locked() {
  StopInsteadOfUnwinding stop;
  state_ = PyGILState_Ensure();
  stop.is_taken = true;
}

}  // namespace tnt::comm::bindings
