#pragma once

#include <Python.h>
#include <unistd.h>

namespace tnt::comm::bindings {

/// Runs a function that takes Python's lock.
///
/// Once the interpreter has ended, whoever takes the lock never returns: before Python 3.14 the
/// thread's stack is unwound, which ends the whole process where a destructor is on it. The thread
/// stops here instead, as later Pythons make it, and goes with the process.
template <typename Take>
auto take_python_lock(Take&& take) {
  struct Stop {
    bool is_taken = false;
    ~Stop() {
      while (!is_taken) ::pause();
    }
  } stop;
  const auto result = take();
  stop.is_taken = true;
  return result;
}

/// Without Python's lock while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    take_python_lock([this] { return PyEval_RestoreThread(state_), state_; });
  }
  Unlocked(Unlocked&&) = delete;

 private:
  PyThreadState* state_;
};

/// With Python's lock while it lives, which the thread may have already.
class Locked {
 public:
  Locked() : state_(take_python_lock([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(Locked&&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace tnt::comm::bindings
