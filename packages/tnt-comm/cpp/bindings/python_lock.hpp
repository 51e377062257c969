#pragma once

#include <Python.h>

namespace tnt::comm::bindings {

// Once the interpreter has ended, whoever takes Python's lock never returns: before Python 3.14 the
// thread's stack is unwound, which ends the whole process where a destructor is on it. These two
// stop the thread instead, as later Pythons do, and it goes with the process.

/// Without Python's lock while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(Unlocked&&) = delete;

 private:
  PyThreadState* state_;
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
