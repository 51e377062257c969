#pragma once

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/polling.hpp"

namespace tnt::comm::bindings {

// One function per file; module.cpp calls them.
void bind_group(pybind11::module_& module);
void bind_allreduce(pybind11::module_& module);
void bind_reducer(pybind11::module_& module);

/// Sets the Python exception for an error of the library. With the GIL.
void set_python_error(const Error& error);

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

/// File and line of the nearest Python code outside of this package that led to
/// the call of this thread, such as "train.py:31"; "" if there is none. With or
/// without the GIL. Takes a microsecond.
std::string user_line();

}  // namespace tnt::comm::bindings
