#pragma once

#include <Python.h>

namespace tnt::comm::bindings {

// Once the interpreter has ended, whoever takes Python's lock never returns: before Python 3.14 the
// thread's stack is unwound, which ends the whole process where a destructor is on it. These two
// stop the thread instead, as later Pythons do, and it goes with the process.

/// Without Python's lock while it lives, or from `begin()` on.
class Unlocked {
 public:
  Unlocked() { begin(); }
  explicit Unlocked(bool is_at_once) {
    if (is_at_once) begin();
  }
  ~Unlocked();
  Unlocked(Unlocked&&) = delete;

  void begin() {
    if (state_ == nullptr) state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* state_ = nullptr;
};

/// With Python's lock while it lives, which the thread may have already.
class Locked {
 public:
  Locked();
  ~Locked() { PyGILState_Release(state_); }
  Locked(Locked&&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace tnt::comm::bindings
