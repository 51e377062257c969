#pragma once

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tnt/comm/communicator/wait.hpp"

namespace tnt::comm::bindings {

/// Lets Ctrl-C end a wait. To be called without the GIL.
///
/// Python handles signals in the main thread only, so other threads do not
/// even ask: taking the GIL while the interpreter ends would end the thread.
inline InterruptCheck python_signals() {
  if (::syscall(SYS_gettid) != ::getpid()) return {};
  return [] {
    const pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  };
}

/// For calls that wait for other ranks without saying how long: without the GIL,
/// and ended by Ctrl-C.
struct InterruptibleCall {
  pybind11::gil_scoped_release unlocked;
  InterruptScope scope{python_signals()};
};

}  // namespace tnt::comm::bindings
